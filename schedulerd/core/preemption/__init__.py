"""Preemption: allocations are released for an ask that is entitled to their room (in two phases, like every release).

The package has no state: timers are in `pending.retry_timers`, and the room for the ask is a reservation. `rules/`
computes what an ask is entitled to and finds the victim set with the lowest cost. `handlers/` searches in slices, asks
the RM if it takes part, and requests the releases. Quota relief, for queues above a lowered max, is here too.
"""
