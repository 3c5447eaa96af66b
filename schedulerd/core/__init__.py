"""The pure scheduler: `facts = scheduler.step(now_ns, command)`.

Nothing below this package knows of clocks, event loops, sockets, randomness or logging, so the same history of
commands always gives the same facts. An import contract in CI keeps it that way.
"""
