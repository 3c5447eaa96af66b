"""Gangs: placeholders hold room for task groups until real asks replace them (gang design; SEMANTICS G).

The state is in `model.gang`. `placeholders` counts placeholders and is called by `commit`. `rules/` decides whether a
gang fits on the nodes, and which gangs release placeholders in a gang deadlock. `handlers/` swaps placeholders for real
asks and handles the timeouts of gangs.
"""
