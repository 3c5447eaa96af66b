"""Quotas and limits: whether an ask may be allocated in a queue for a user, and what blocks it if not.

Holds the usage of users and groups. `rules` answers every question about quotas with a `Blocked` or None; `sentences`
turns it into text; `headroom` counts how much more may be allocated.
"""
