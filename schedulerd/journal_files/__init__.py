"""The files of a journal, whatever it records: of the daemon (`schedulerd.journal`) and of the shim.

`blocks` are bytes with checksums, `files` append them within the bounds of a journal, `writer` is the thread that does
it, `reading` reads them again. The standard library is all that this package needs.
"""
