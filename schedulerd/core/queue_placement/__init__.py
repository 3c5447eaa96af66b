"""Queue placement: which queue an application goes to, and dynamic queues.

The package has no state. `rules/` evaluates the placement rules and reads namespace tags; `handlers/` creates dynamic
queues, removes them when they are no longer needed, and stops and starts queues.
"""
