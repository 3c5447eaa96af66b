"""Lifecycle of RMs: registered, connected, away, stopped."""
