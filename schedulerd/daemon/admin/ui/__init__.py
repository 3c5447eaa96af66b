"""The web page at `/ui/`: rendered here, and kept fresh by server-sent events.

A page is a view (`view.py`): texts and lists of rows, made from the state by one of the modules in `pages`. A template
shows the view as HTML, and the stream sends what has changed in it, so both say the same. Views are refreshed by one
task (`live.py`) for all viewers, at most once a second each, and not at all while no page is open.
"""
