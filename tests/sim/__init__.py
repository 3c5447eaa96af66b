"""A seeded world: resource managers that mostly obey the interface, and everything that can go wrong with them.

`world.py` makes up what happens next, and others what is about gangs, who gets in, company and results; `faults.py`
lets messages and machines fail on top. `simulation.py` feeds it to the core under a virtual clock, `judge.py` has every
step judged: by the core's own invariants, by `auditor.py` which knows nothing but facts, by `rm_memory.py` which knows
what a resource manager was told, by `oracle.py` which looks at every ask and node the slow way, and by invariants, each
which knows one thing that is promised. `tests.mutants` shows that they see what is broken. All of it is in
docs/simulation.md.
"""
