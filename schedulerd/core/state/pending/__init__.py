"""The pending index: asks with pending allocations, in order, what blocks them, and what makes them be tried again.

Queues, applications and ask groups are the scheduling entities of their parents; an ask group has the pending asks of
one pending class and task group in one application. One set of verbs is used at all levels:

- `enqueue`: an ask enters its group, or an entity needs a pending class at its parent from now on.
- `dequeue`: an ask leaves its group, or an entity no longer needs the class.
- `requeue`: an ask or group that is there is put at another place: its group changed, or it may be tried again.
- `rekey`: the sort key of an entity changed, and what it needs did not.
- `first`: the head, which stays where it is.
- `block`, `propagate`, `unblock`: no ask of a class is found at a parent, nor at those below it, until it may be
  allocated.

`asks` has these operations for whole asks: the ledger calls them once for each change of what is pending. `end_of_step`
tries again what was set aside, `retry_timers` knows when asks are due for a reservation or for preemption, and `rules/`
say in which state each pending allocation is.
"""
