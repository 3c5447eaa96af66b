"""The journal of the shim: what its cluster was told, by which it can be stepped again elsewhere.

`codec` is the text of events and effects, `recorded_cluster` records, `writer` is the thread with the file; `reader`
reads it, `replay` and `cli` play it again.
"""
