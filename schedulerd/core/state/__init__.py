"""What the scheduler knows, and the ways to change it: one floor, below all features.

`model` is what there is, and `partition` what a resource manager has of it. `pending`, `constraints`, `quotas` and
`nodes` are its indexes: which ask is next, where it may go, whether it is let in, which node is tried first. `ledger`
books each change in all of them together. `step_context` is what a step works on, with `alarm_events`, what it may wait
for. `actions` are changes that more than one feature causes, with the facts about them. `plans` are several of them,
committed as one.
"""
