"""Exec plugins: a program that prints credentials (client.authentication.k8s.io).

The program is bounded in time and output, and ended with everything that it started. When credentials are wanted again
is decided by `Access`: a minute after those without an expiry, just before the expiry of the others, or after a 401.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from schedulerd.kubernetes.auth.errors import AccessUnusable
from schedulerd.kubernetes.auth.fields import base64_bytes, checked_token
from schedulerd.kubernetes.auth.files import read_now
from schedulerd.kubernetes.auth.kubeconfig_model import ExecFields, FoundCluster

GROUP = "client.authentication.k8s.io"
API_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
RUN_SECONDS_MAX = 60.0
OUTPUT_BYTES_MAX = 1024 * 1024
MESSAGE_BYTES_MAX = 2048
"""Of what the program writes to its standard error, for our message."""


class _Given(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Given | None = None


@dataclass(frozen=True, slots=True)
class PluginCredentials:
    token: str | None
    certificate: bytes | None
    key: bytes | None
    expires_s: float | None


class ExecPlugin:
    """Runs the program each time `run` is called."""

    def __init__(
        self,
        fields: ExecFields,
        where: str,
        folder: Path,
        cluster: FoundCluster,
        environment: Mapping[str, str],
        seconds_max: float = RUN_SECONDS_MAX,
    ) -> None:
        """`folder` is that of the kubeconfig. Raises `AccessUnusable`."""
        if fields.api_version not in API_VERSIONS:
            raise AccessUnusable(
                f"{where}.apiVersion is {fields.api_version!r}; it must be {' or '.join(API_VERSIONS)}"
            )
        if fields.interactive_mode == "Always":
            raise AccessUnusable(f"{where}.interactiveMode is 'Always'; nobody can be asked: use IfAvailable or Never")
        self.runs = 0
        self._fields = fields
        self._where = where
        self._seconds_max = seconds_max
        # As kubectl does: a name is looked for in PATH, a path with a slash is relative to the kubeconfig.
        command = str(folder / fields.command) if "/" in fields.command else fields.command
        self._arguments = [command, *(fields.args or ())]
        self._environment = {**environment, **{one.name: one.value for one in fields.env or ()}}
        self._environment["KUBERNETES_EXEC_INFO"] = _exec_info(fields, cluster)

    async def run(self) -> PluginCredentials:
        """Credentials as the program gives them now. Raises `AccessUnusable`."""
        self.runs += 1
        output = await self._output()
        try:
            answer = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.DecodeError as error:  # its text names fields, never values
            raise AccessUnusable(f"{self._said} not an ExecCredential: {error}") from None
        if answer.kind != "ExecCredential" or answer.api_version != self._fields.api_version:
            raise AccessUnusable(
                f"{self._said} {answer.kind[:60]!r} of {answer.api_version[:60]!r}; it must be 'ExecCredential' of "
                f"{self._fields.api_version!r}, as {self._where}.apiVersion says"
            )
        given = answer.status
        if given is None or not (given.token or given.client_certificate_data):
            raise AccessUnusable(f"{self._said} no credentials; status must have a token or a client certificate")
        if bool(given.client_certificate_data) != bool(given.client_key_data):
            raise AccessUnusable(f"{self._said} a client certificate without its key, or a key without certificate")
        expires = given.expiration_timestamp
        if expires is not None and expires.tzinfo is None:
            expires = expires.replace(tzinfo=UTC)
        return PluginCredentials(
            checked_token(given.token, f"{self._where}: status.token") if given.token else None,
            given.client_certificate_data.encode() or None,
            given.client_key_data.encode() or None,
            None if expires is None else expires.timestamp(),
        )

    @property
    def _said(self) -> str:
        return f"{self._where}: {self._fields.command!r} printed"

    async def _output(self) -> bytes:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            hint = f" ({self._fields.install_hint.strip()[:500]})" if self._fields.install_hint else ""
            raise AccessUnusable(
                f"{self._where}.command: cannot run {self._fields.command!r}: {error}; install it or correct the"
                f" name{hint}"
            ) from error
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(self._seconds_max):
                output, message = await asyncio.gather(
                    _read(process.stdout, OUTPUT_BYTES_MAX), _read(process.stderr, MESSAGE_BYTES_MAX)
                )
                status = await process.wait()
        except TimeoutError:
            raise AccessUnusable(
                f"{self._where}: {self._fields.command!r} gave no answer within {self._seconds_max:g} s"
            ) from None
        finally:
            await _end(process)
        if len(output) > OUTPUT_BYTES_MAX:
            raise AccessUnusable(f"{self._said} more than {OUTPUT_BYTES_MAX} bytes")
        if status != 0:
            text = message[:MESSAGE_BYTES_MAX].decode("utf-8", "replace").strip()
            raise AccessUnusable(f"{self._where}: {self._fields.command!r} ended with status {status}: {text}")
        return output


async def _read(stream: asyncio.StreamReader, bytes_max: int) -> bytes:
    """Up to one byte more than `bytes_max`; the rest is read and forgotten, so that the program can end."""
    kept = b""
    while piece := await stream.read(64 * 1024):
        kept = (kept + piece)[: bytes_max + 1]
    return kept


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kills the program and what it has started, in its session; nothing happens if all of it has ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _exec_info(fields: ExecFields, cluster: FoundCluster) -> str:
    spec: dict[str, object] = {"interactive": False}
    if fields.provide_cluster_info:
        c = cluster.fields
        told: dict[str, object] = {"server": c.server}
        if c.tls_server_name:
            told["tls-server-name"] = c.tls_server_name
        if c.insecure_skip_tls_verify:
            told["insecure-skip-tls-verify"] = True
        if c.certificate_authority_data:
            where = f"{cluster.where}.cluster.certificate-authority-data"
            base64_bytes(c.certificate_authority_data, where)
            told["certificate-authority-data"] = c.certificate_authority_data
        elif c.certificate_authority:
            authority = read_now(cluster.path.parent / c.certificate_authority)
            told["certificate-authority-data"] = base64.b64encode(authority).decode()
        if c.proxy_url:
            told["proxy-url"] = c.proxy_url
        spec["cluster"] = told
    info = {"kind": "ExecCredential", "apiVersion": fields.api_version, "spec": spec}
    return msgspec.json.encode(info).decode()
