"""Predicates: the RM is asked whether an ask may run on a node before it is allocated there (SEMANTICS B4).

The package has the open checks of an RM, and the asks that the RM refused on every node with room. `handlers/` starts
checks, handles their results, and lets refused asks be tried again.
"""
