"""Recovery: an RM reports its state again, in any order.

The package keeps items that arrived before the application they refer to. `handlers/` takes over existing allocations
with their node, checks them as a whole, and reports mismatches.
"""
