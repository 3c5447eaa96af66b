"""Pending asks: their order, what blocks them, and what makes them be tried again.

Holds request classes, the index of pending classes at each queue and application, blocks, and the times at which asks
become due for a reservation or for preemption. `enqueueing` and `requeue` change it: they are called by the ledger, by
actions, by handlers and at the end of a step. `rules/` says in which state each pending allocation is.
"""
