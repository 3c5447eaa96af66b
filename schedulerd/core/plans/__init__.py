"""Plans: allocations, preemptions and reservations of several asks that happen together or not at all.

Holds nothing. A rule makes a `Plan` from what it read, however long ago; `rules` judges it as a whole against the
present state, and `handlers` commits it. Preemption is committed this way; whole gangs can be.
"""
