"""What runs independently of clients: the owner of the scheduler, and the process around it.

Holds the owner and the length of cycles (`owner`), the sinks that need no client (`event_feed`, `journaling`),
the log (`logs`, `log_writer`, `redaction`), what keeps the loop free (`workers`, `slices`, `json_stream`, `shares`,
`probe`), memory
and file descriptors (`collector`, `allocator`, `descriptors`), the end of the process (`shutdown`, `failures`), and the
groups of a user according to the operating system (`groups`).

May import no other package of the daemon.
"""
