"""What clients of Apache YuniKorn know: its REST API, `/ws/v1/...`, and its metrics (`metrics.py`).

Only `daemon/http_services.py` and `daemon/scheduling.py` name this package: nothing else of the daemon needs it.

`routes.py` is the table of all routes. A handler looks up what the path names (`lookup.py`), and returns values in the
peer's shape; the modules `*_projections` make these from the objects of the
core, which they only read. `answers.py` writes the values as JSON in slices, so that a large answer never holds the
loop; `router.py` does what the peer's router does with paths that are not quite right. docs/rest.md describes all of it
for clients, with the differences.
"""
