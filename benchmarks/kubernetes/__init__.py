"""The Kubernetes shim as a whole: beside other schedulers on a real API server, and alone on the fake one."""
