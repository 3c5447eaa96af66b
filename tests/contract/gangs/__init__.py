"""Gangs over real gRPC while processes are killed: what was bound stays, what was not is asked for again.

The truth (which pods there are, and on which nodes) is where it is in Kubernetes: in an API server, which survives
(`truth`, `api_server`). The resource manager is a process of its own that has nothing but what it hears; it, or the
daemon, is killed with SIGKILL after a number of bytes between them (`cable`), and the next one goes on from the truth.
"""
