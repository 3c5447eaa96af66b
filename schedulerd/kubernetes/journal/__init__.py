"""The journal of the shim: what its cluster was told, by which it can be stepped again elsewhere.

`codec` is the text of events and effects, `recorded_cluster` and `recorder` write them, `reader` reads them, as files
of `schedulerd.journal_files`; `replay` and `cli` play them again.
"""
