"""Lifecycle of RMs: registered, connected, away, stopped; and freeing their dropped state in slices."""
