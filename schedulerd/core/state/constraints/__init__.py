"""Placement constraints: on which nodes an ask may run, by node attributes and by the allocations there (SI 2021-02).

The package has the node groups, allocation counts and node pools of the constraints in use. The ledger keeps them up to
date. All of this can be computed again from the nodes; `core.invariants` does so to check it.
"""
