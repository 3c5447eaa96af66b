"""Applications, their asks and their allocations, from submission until they are forgotten.

Holds no state: that is in `model`. `handlers/` handles what resource managers send about applications, asks and
releases, and moves applications between states. Only these handlers say that an ask or allocation was added or is gone.
They change ledgers through `commit` only.
"""
