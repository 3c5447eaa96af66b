"""Lets schedulerd schedule the pods of a Kubernetes cluster: an outside client of the daemon and of the API server.

The package imports `schedulerd.client`, msgspec and aiohttp, and nothing of the daemon. What decides is pure (no I/O,
no clock), so that it can be tested and replayed without a cluster.
"""
