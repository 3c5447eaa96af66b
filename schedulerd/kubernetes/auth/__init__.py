"""How the shim proves to the API server who it is, and how it knows that it talks to the right one.

`load_access` finds the way that the environment offers: a kubeconfig that was named, the variable KUBECONFIG, the
service account of a pod, or `~/.kube/config`. The result is an `Access`. It is asked for credentials before every
request, reads files again every minute, runs exec plugins again when their credentials expire, and is told of a 401.
"""

from schedulerd.kubernetes.auth.access import Access, Credentials, Material
from schedulerd.kubernetes.auth.errors import AccessUnusable
from schedulerd.kubernetes.auth.find import load_access
from schedulerd.kubernetes.auth.in_cluster import in_cluster
from schedulerd.kubernetes.auth.kubeconfig import from_kubeconfig

__all__ = ["Access", "AccessUnusable", "Credentials", "Material", "from_kubeconfig", "in_cluster", "load_access"]
