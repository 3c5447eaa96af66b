"""A seeded world: resource managers that mostly obey the interface, and everything that can go wrong with them.

`world.py` makes up what happens next (`gang_world.py` and `contested_world.py` are about gangs, and about who gets in),
`simulation.py` feeds it to the core under a virtual clock and has every step judged: by the core's own invariants, by
`auditor.py` which knows nothing but facts, by `rm_memory.py` which knows what a resource manager was told, by
`oracle.py` which looks at every ask and node the slow way, and by `gang_law.py` and `room_law.py` which know what is
promised about gangs, and about kept room and preemption.
"""
