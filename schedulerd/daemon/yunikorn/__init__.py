"""The REST API of YuniKorn, `/ws/v1/...`, answered from the state of the scheduler.

`routes.py` is the table of all routes. A handler looks up what the path names (`lookup.py`), and returns values in the
peer's shape; the modules `queue_objects`, `application_objects` and `node_objects` make these from the objects of the
core, which they only read. `answers.py` writes the values as JSON in slices, so that a large answer never holds the
loop; `router.py` does what the peer's router does with paths that are not quite right. docs/rest.md describes all of it
for clients, with the differences.
"""
