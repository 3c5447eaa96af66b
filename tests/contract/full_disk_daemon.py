"""The daemon with its journal on a disk that has room for `DISK_ROOM_BYTES`: what does not fit is written as far as it
does, and then the system says ENOSPC."""

from __future__ import annotations

import os
from functools import partial

from schedulerd.cli import main
from schedulerd.journal_files import files
from schedulerd.journal_files.files import JournalFiles
from tests.unit.journal.build import Disk

ROOM = "DISK_ROOM_BYTES"
"""Of the environment."""

if __name__ == "__main__":
    disk = Disk(int(os.environ[ROOM]))
    files.JournalFiles = partial(JournalFiles, open_file=disk.open)  # type: ignore[assignment,misc]
    main()
