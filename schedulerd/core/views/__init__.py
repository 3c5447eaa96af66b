"""Read-only views: the state as plain values, for dumps, metrics and tests. They keep no reference to the state."""
