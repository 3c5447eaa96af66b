"""Recovery: an RM reports its state again, in any order.

`handlers/` takes over existing allocations with their node, checks them as a whole, and reports mismatches. Items that
arrived before the application that they refer to, and allocations that nobody has claimed yet, wait in the state.
"""
