"""Our own HTTP API, `/api/v1`: the state as pages and single objects, events, and why asks wait.

`app.py` puts the routes together; models make the schema, which is served with a page to read it. What is read of the
state is read in slices that count against the share of state queries (`state_queries.py`), so no answer holds the
loop. `docs/api.md` is for users.
"""
