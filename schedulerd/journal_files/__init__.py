"""Journals, whatever they record: the daemon's (`schedulerd.journal`) and the shim's (`schedulerd.kubernetes.journal`).

An entry is what a state machine was told; its result, what came of it, is in the journal as a digest only. `kind` is
what differs between journals on the disk, `blocks` are bytes with checksums, `files` append them within the bounds of a
journal, `writer` is the thread that does it, `reader` reads them again, `digest` proves that a replay has the same
results. The standard library is all that this package needs.
"""
