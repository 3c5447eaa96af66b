"""Changes that more than one feature causes: they book the change and say so.

Each function takes the context of the step, changes the state through the ledger and emits the facts about it, so what
is said and what is so cannot disagree.
"""
