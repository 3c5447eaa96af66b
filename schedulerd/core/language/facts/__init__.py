"""Facts: what a step says. `fact` has the type, and those from which books of amounts and counts are kept."""
