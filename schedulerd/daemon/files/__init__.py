"""Files that the operator may change while the daemon runs: queue files, and how any file is watched and read again.

Holds the watch (`file_watch`), the base class of everything that is read again (`rereading`), the texts of queue files
and the processes that parse them (`queue_files`, `reading_process`), and the reload of changed queue files (`reloads`).

May import `runtime`.
"""
