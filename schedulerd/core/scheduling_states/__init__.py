"""Scheduling states: an RM that asks for them is told why its asks wait (SI `UpdateContainerSchedulingState`).

The package remembers what the RM was told about each ask, and what must be checked again.
"""
