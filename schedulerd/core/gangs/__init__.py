"""Gangs: placeholders hold room for task groups until real asks replace them (gang design; SEMANTICS G).

What is known of a gang is in `state.model.gang`, and `state.ledger.placeholders` counts placeholders. `rules/` decides
which gangs release placeholders in a gang deadlock, and `handlers/` what happens when the time of a gang is over. The
time itself and the swaps are actions of the state (`gang_time`, `swaps`).
"""
