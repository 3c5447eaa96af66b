"""What there is: applications, asks and allocations, queues, nodes, gangs, reservations, predicate checks.

These classes refer to each other in cycles; no other modules of the core do. They hold state and answer questions about
themselves; they import no rule and no handler. `Partition` and `Cluster`, one level up, hold all of them.
"""
