"""Access by kubeconfig files, as kubectl reads them.

Fields that kubectl has dropped (user name and password, auth-provider) and impersonation are refused by name instead
of being passed over: the requests would be sent as somebody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from schedulerd.kubernetes.auth.access import Access, Material, ReadMaterial
from schedulerd.kubernetes.auth.errors import AccessUnusable
from schedulerd.kubernetes.auth.exec_plugin import ExecPlugin
from schedulerd.kubernetes.auth.fields import base64_bytes, checked_token, token_text
from schedulerd.kubernetes.auth.files import FileReader, ReadFile
from schedulerd.kubernetes.auth.kubeconfig_model import (
    FoundCluster,
    FoundContext,
    FoundUser,
    Merged,
    read_kubeconfigs,
)

FoundT = TypeVar("FoundT")


def from_kubeconfig(
    paths: list[Path],
    context: str | None,
    environment: Mapping[str, str],
    *,
    must_exist: bool = False,
    read_file: ReadFile | None = None,
) -> Access:
    """The access of `context`, else of the current context. Raises `AccessUnusable`."""
    merged = read_kubeconfigs(paths, must_exist=must_exist)
    chosen = _context(merged, context, paths)
    cluster = _named(merged.clusters, chosen.fields.cluster, f"{chosen.where}.cluster")
    user = _named(merged.users, chosen.fields.user, f"{chosen.where}.user") if chosen.fields.user else None
    _check_cluster(cluster)
    plugin = None
    if user is not None:
        _check_user(user)
        if user.fields.exec is not None:
            plugin = ExecPlugin(user.fields.exec, f"{user.where}.user.exec", user.path.parent, cluster, environment)
    return Access(
        cluster.fields.server,
        _reader(cluster, user, plugin, read_file or FileReader()),
        namespace=chosen.fields.namespace or "default",
        tls_server_name=cluster.fields.tls_server_name or None,
        insecure=cluster.fields.insecure_skip_tls_verify,
        proxy=cluster.fields.proxy_url or None,
    )


def _context(merged: Merged, name: str | None, paths: list[Path]) -> FoundContext:
    wanted = name or merged.current_context
    files = ", ".join(map(str, paths))
    if not wanted:
        raise AccessUnusable(f"{files}: current-context is not set; it must name one of {_names(merged.contexts)}")
    if wanted not in merged.contexts:
        source = "the given context" if name else "current-context"
        raise AccessUnusable(f"{files}: {source} is {wanted!r}; it must be one of {_names(merged.contexts)}")
    return merged.contexts[wanted]


def _named(entries: Mapping[str, FoundT], name: str, where: str) -> FoundT:
    if name not in entries:
        raise AccessUnusable(f"{where} is {name!r}; it must be one of {_names(entries)}")
    return entries[name]


def _names(entries: Mapping[str, object]) -> str:
    return ", ".join(map(repr, sorted(entries)[:20])) or "(there are none)"


def _check_cluster(cluster: FoundCluster) -> None:
    where, fields = f"{cluster.where}.cluster", cluster.fields
    _check_url(fields.server, ("https", "http"), f"{where}.server", "https://10.0.0.1:6443")
    if fields.proxy_url:
        _check_url(fields.proxy_url, ("http", "https"), f"{where}.proxy-url", "http://proxy:3128")
    if fields.insecure_skip_tls_verify and (fields.certificate_authority or fields.certificate_authority_data):
        raise AccessUnusable(
            f"{where}.insecure-skip-tls-verify is true although a certificate authority is given; one of both must go"
        )


def _check_url(url: str, schemes: tuple[str, ...], where: str, example: str) -> None:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise AccessUnusable(
            f"{where} is {url[:200]!r}; it must be a URL with {' or '.join(schemes)}, such as {example}"
        )


def _check_user(user: FoundUser) -> None:
    where, fields = f"{user.where}.user", user.fields
    if fields.username or fields.password:
        raise AccessUnusable(f"{where}.username: API servers take no passwords any longer; use a token or certificate")
    if fields.auth_provider is not None:
        raise AccessUnusable(f"{where}.auth-provider: was replaced by exec plugins in Kubernetes 1.26; use exec")
    if fields.act_as:
        raise AccessUnusable(f"{where}.as: impersonation is not supported; use credentials of that user")
    has_certificate = bool(fields.client_certificate or fields.client_certificate_data)
    if has_certificate != bool(fields.client_key or fields.client_key_data):
        missing = "client-key" if has_certificate else "client-certificate"
        raise AccessUnusable(f"{where}.{missing} is missing; a client certificate and its key are needed together")
    if fields.token and not fields.token_file:
        checked_token(fields.token, f"{where}.token")


def _reader(
    cluster: FoundCluster, user: FoundUser | None, plugin: ExecPlugin | None, read_file: ReadFile
) -> ReadMaterial:
    async def pem(data: str, name: str, path: Path, where: str) -> bytes | None:
        if data:
            return base64_bytes(data, f"{where}-data")
        if not name:
            return None
        try:
            return await read_file(path.parent / name)
        except AccessUnusable as error:
            raise AccessUnusable(f"{where}: {error}") from error

    async def material() -> Material:
        at, c = f"{cluster.where}.cluster.certificate-authority", cluster.fields
        ca = await pem(c.certificate_authority_data, c.certificate_authority, cluster.path, at)
        if user is None:
            return Material(ca=ca)
        at, u = f"{user.where}.user", user.fields
        certificate = await pem(u.client_certificate_data, u.client_certificate, user.path, f"{at}.client-certificate")
        key = await pem(u.client_key_data, u.client_key, user.path, f"{at}.client-key")
        token = u.token or None
        if u.token_file:
            path = user.path.parent / u.token_file
            token = token_text(await read_file(path), f"{at}.tokenFile: {path}")
        if plugin is None:
            return Material(token, ca, certificate, key)
        given = await plugin.run()
        return Material(given.token or token, ca, given.certificate or certificate, given.key or key, given.expires_s)

    return material
