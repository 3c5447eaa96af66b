"""Scheduling states: an RM that asks for them is told why its asks wait (SI `UpdateContainerSchedulingState`).

What the RM was told about each ask, and what must be checked again, is in `state.model.scheduling_state_tracker`.
"""
