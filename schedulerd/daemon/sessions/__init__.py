"""What the daemon keeps of a registered resource manager (RM) between its streams.

- Session: the registration, with its current and its superseded streams (`rm_session`, `rm_sessions`; `open_calls` is
  what both know of a stream).
- Resumption: what a stream that continues an earlier one sends again, if its client says how far it has come
  (`resumption`, `sent_messages`), and what is in doubt if the client does not say it (`lost_connections`).
- Back-pressure: the responses that wait (`outbox`), and what happens when too many responses wait, or too many commands
  in the inbox (`back_pressure`).

May import `access`, `files` and `runtime`. It knows streams by a protocol only.
"""
