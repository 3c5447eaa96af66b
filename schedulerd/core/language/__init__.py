"""The words of the core: what it is told (commands), what it says (facts), and the values that both are made of.

Amounts, specs of queues and nodes, tables of states, alarms, and the readers of texts from outside. Nothing here knows
the state.
"""
