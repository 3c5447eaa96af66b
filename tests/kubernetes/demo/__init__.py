"""A demonstration of the Kubernetes shim: a cluster of processes, and a story that is told and checked line by line."""
