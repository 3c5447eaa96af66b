"""Which way to the API server the environment offers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from schedulerd.kubernetes.auth.access import Access
from schedulerd.kubernetes.auth.errors import AccessUnusable
from schedulerd.kubernetes.auth.in_cluster import SERVICE_ACCOUNT, in_cluster, is_in_cluster
from schedulerd.kubernetes.auth.kubeconfig import from_kubeconfig


def load_access(
    kubeconfig: Path | None = None,
    context: str | None = None,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """The first of: `kubeconfig`, the files of KUBECONFIG, the service account, `~/.kube/config`.

    Raises `AccessUnusable`. A proxy is used only if a kubeconfig names it: the variables HTTPS_PROXY and NO_PROXY are
    not read, as their address ranges are understood differently by every program.
    """
    if kubeconfig is not None:
        return from_kubeconfig([kubeconfig], context, environment, must_exist=True)
    if listed := environment.get("KUBECONFIG"):
        paths = [Path(part) for part in listed.split(os.pathsep) if part]
        return from_kubeconfig(paths, context, environment)
    if is_in_cluster(environment) and context is None:
        return in_cluster(environment, service_account)
    home = environment.get("HOME")
    default = Path(home, ".kube", "config") if home else None
    if default is None or not default.exists():
        raise AccessUnusable(
            "no way to an API server: name a kubeconfig, set KUBECONFIG, run in a pod with a service account"
            f"{f', or write {default}' if default else ''}"
        )
    return from_kubeconfig([default], context, environment)
