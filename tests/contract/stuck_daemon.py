"""The daemon with a thread that never ends, as if its file system were gone. The time a shutdown may take is short."""

from __future__ import annotations

import threading

from schedulerd.cli import main
from schedulerd.daemon import server

LATEST_SECONDS = 0.5

if __name__ == "__main__":
    server.CLOSING_SECONDS_MAX = LATEST_SECONDS  # type: ignore[attr-defined]
    threading.Thread(target=threading.Event().wait, name="stuck here by a test").start()
    main()
