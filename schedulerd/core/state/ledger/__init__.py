"""What books a change of an ask, an allocation, a reservation or a check everywhere at once.

Each function changes node, application, queues, users, gang and pending index together, so they cannot disagree. It
emits no facts: actions and handlers do.
"""
