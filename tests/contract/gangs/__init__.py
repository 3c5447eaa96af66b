"""Gangs over real gRPC while processes are killed or stand still: what was bound stays, what was not is asked for anew.

The truth (which pods there are, and on which nodes) is where it is in Kubernetes: in an API server, which survives
(`truth`, `api_server`). The resource manager is a process of its own that has nothing but what it hears. After a number
of bytes between them (`cable`) it, or the daemon, is killed, and the next one goes on from the truth; or it stands
still for a while, as in a network that does; or the daemon is told to stop (`faults`).
"""
