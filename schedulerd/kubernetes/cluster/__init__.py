"""The cluster as a pure state machine: what Kubernetes and the daemon say goes in, what is to be done comes out.

`cluster.Cluster` is the way in. `events` and `effects` are its two vocabularies, `model` is its state, and the other
modules are the handlers: `pods`, `nodes`, `applications`, `asking`, `allocations`, `answers`, `conditions`, `start`.
"""
