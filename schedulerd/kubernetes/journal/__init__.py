"""The journal of the shim: what its cluster was told, by which it can be stepped again elsewhere.

`codec` is the text of events and effects, `recorded_cluster` records, `writer` makes blocks of files of them
(`schedulerd.journal_files`); `reader` reads them, `replay` and `cli` play them again.
"""
