"""Leader election: the pure elector, the keeper on a virtual loop, and the thread."""
