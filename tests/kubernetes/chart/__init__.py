"""The Helm chart: what it renders, the manifests and the table that are made from it, and its installation on a real
API server, whose nodes run its containers as processes."""
