"""Reload of the queue file: what a new file would do, and how it takes effect as a whole or not at all.

The package has no state. `rules/` compares the file with the queues; `handlers/` changes queues, adds and removes
partitions, and tells how each queue changed.
"""
