"""The process that connects an API server with a daemon: watches in, messages and writes out.

    watches ─▶ one queue ─▶ Driver ─▶ Cluster ─▶ effects ─▶ DaemonWriter (scheduler interface)
                              ▲                        └──▶ ApiWriter (bind, delete, patch, event)
         DaemonLink (answers, questions), ends of writes, timers

Everything runs on one event loop; the cluster is stepped in the turn in which something comes.
"""
