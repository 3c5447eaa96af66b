"""Quotas of queues and limits of users and groups: whether they let something more in, and what stands against it.

It holds what users and groups use (`usage`), and on whose account an application runs (`limit_subject`). Every question
is answered in `rules`, with a `Blocked` that says what blocks, how much is used, asked and allowed; `sentences` makes
the text. `headroom` answers the same for asks that are only supposed to be placed. Nothing here changes a queue or an
application: what they use is booked by `commit`.
"""
