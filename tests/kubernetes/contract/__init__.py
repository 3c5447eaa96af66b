"""The contract between the shim and an API server, as far as the shim relies on it.

Each test runs against the fake, and unchanged against a real kube-apiserver where the environment variable
KUBEBUILDER_ASSETS names a folder with kube-apiserver and etcd. `docs/kubernetes-fake.md` lists what differs.
"""
