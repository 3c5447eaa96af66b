"""The service account of the pod in which the shim runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from schedulerd.kubernetes.auth.access import Access, Material
from schedulerd.kubernetes.auth.errors import AccessUnusable
from schedulerd.kubernetes.auth.fields import token_text
from schedulerd.kubernetes.auth.files import FileReader, ReadFile, read_now

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def is_in_cluster(environment: Mapping[str, str]) -> bool:
    return bool(environment.get(HOST) and environment.get(PORT))


def in_cluster(
    environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT, read_file: ReadFile | None = None
) -> Access:
    """The API server that the kubelet names in the environment. Raises `AccessUnusable`."""
    for name in (HOST, PORT):
        if not environment.get(name):
            raise AccessUnusable(f"environment variable {name} is not set; the kubelet sets it in every pod")
    host, port = environment[HOST], environment[PORT]
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise AccessUnusable(f"environment variable {PORT} is {port[:40]!r}; it must be a number from 1 to 65535")
    address = f"[{host}]" if ":" in host else host
    read = read_file or FileReader()

    async def material() -> Material:
        token = token_text(await read(directory / "token"), f"{directory / 'token'}")
        return Material(token=token, ca=await read(directory / "ca.crt"))

    try:
        namespace = read_now(directory / "namespace").decode("utf-8", "replace").strip()
    except AccessUnusable:  # a projected volume may leave it out
        namespace = environment.get("POD_NAMESPACE", "")
    return Access(f"https://{address}:{port}", material, namespace=namespace or "default")
