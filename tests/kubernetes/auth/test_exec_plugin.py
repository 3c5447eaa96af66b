"""Exec plugins: small programs that print credentials, well or badly."""

from __future__ import annotations

import asyncio
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schedulerd.kubernetes.auth import Access, AccessUnusable, from_kubeconfig
from schedulerd.kubernetes.auth.exec_plugin import ExecPlugin
from schedulerd.kubernetes.auth.files import read_now
from schedulerd.kubernetes.auth.kubeconfig_model import ClusterFields, ExecFields, ExecVariable, FoundCluster
from tests.kubernetes.auth.certificates import CERTIFICATE, KEY
from tests.kubernetes.auth.test_kubeconfig import config, written

VERSION = "client.authentication.k8s.io/v1"


def program(folder: Path, script: str) -> str:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def printed(status: dict[str, Any], version: str = VERSION) -> str:
    body = {"kind": "ExecCredential", "apiVersion": version, "status": status}
    return f"cat <<'END'\n{msgspec.json.encode(body).decode()}\nEND"


def plugin(
    folder: Path, script: str, seconds_max: float = 30.0, of_cluster: dict[str, Any] | None = None, **fields: Any
) -> ExecPlugin:
    found = ClusterFields(server="https://x:1", **(of_cluster or {}))
    cluster = FoundCluster(folder / "config", "config: clusters[0] ('k')", found)
    command = fields.pop("command", None) or program(folder, script)
    wanted = ExecFields(command=command, api_version=VERSION, **fields)
    return ExecPlugin(wanted, "users[0] ('u').user.exec", folder, cluster, {"PATH": os.environ["PATH"]}, seconds_max)


@pytest.mark.parametrize("zone", ["Z", ""])
async def test_a_token_with_an_expiry(tmp_path: Path, zone: str, real_loop: None) -> None:
    given = await plugin(tmp_path, printed({"token": "t", "expirationTimestamp": f"2026-11-23T10:00:00{zone}"})).run()
    assert given.token == "t"
    assert given.expires_s == datetime(2026, 11, 23, 10, tzinfo=UTC).timestamp()


async def test_a_certificate(tmp_path: Path, real_loop: None) -> None:
    status = {"clientCertificateData": CERTIFICATE.decode(), "clientKeyData": KEY.decode()}
    given = await plugin(tmp_path, printed(status)).run()
    assert (given.certificate, given.key, given.token) == (CERTIFICATE, KEY, None)


async def test_arguments_environment_and_cluster_are_told(tmp_path: Path, real_loop: None) -> None:
    script = f'echo "$1 $COLOUR" >{tmp_path}/seen; echo "$KUBERNETES_EXEC_INFO" >{tmp_path}/info\n'
    one = plugin(
        tmp_path,
        script + printed({"token": "t"}),
        args=["first"],
        env=[ExecVariable("COLOUR", "blue")],
        provide_cluster_info=True,
    )
    await one.run()
    assert (tmp_path / "seen").read_text() == "first blue\n"
    info = msgspec.json.decode((tmp_path / "info").read_bytes())
    assert info["kind"] == "ExecCredential"
    assert info["spec"] == {"interactive": False, "cluster": {"server": "https://x:1"}}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"tls_server_name": "k", "proxy_url": "http://p:1"}, {"tls-server-name": "k", "proxy-url": "http://p:1"}),
        ({"insecure_skip_tls_verify": True}, {"insecure-skip-tls-verify": True}),
        ({"certificate_authority_data": "Y2E="}, {"certificate-authority-data": "Y2E="}),
        ({"certificate_authority": "ca.pem"}, {"certificate-authority-data": "Y2E="}),
    ],
)
async def test_all_of_the_cluster_is_told(
    tmp_path: Path, fields: dict[str, Any], told: dict[str, Any], real_loop: None
) -> None:
    (tmp_path / "ca.pem").write_text("ca")
    script = f'echo "$KUBERNETES_EXEC_INFO" >{tmp_path}/info\n{printed({"token": "t"})}'
    await plugin(tmp_path, script, of_cluster=fields, provide_cluster_info=True).run()
    info = msgspec.json.decode((tmp_path / "info").read_bytes())
    assert info["spec"]["cluster"] == {"server": "https://x:1", **told}


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo no >&2; exit 3", "ended with status 3: no"),
        ("echo nothing", "printed not an ExecCredential"),
        (printed({"token": "t"}, "client.authentication.k8s.io/v1beta1"), "it must be 'ExecCredential' of"),
        (printed({}), "no credentials; status must have a token or a client certificate"),
        (printed({"token": "t", "clientKeyData": "x"}), "a key without certificate"),
        (printed({"token": "a b"}), "status.token: has blanks"),
        ("head -c 2000000 /dev/zero", "printed more than 1048576 bytes"),
        (printed({"token": "t", "expirationTimestamp": "soon"}), "not an ExecCredential"),
    ],
)
async def test_what_a_program_does_wrong_is_said(tmp_path: Path, script: str, text: str, real_loop: None) -> None:
    with pytest.raises(AccessUnusable, match=text) as raised:
        await plugin(tmp_path, script).run()
    assert "users[0] ('u').user.exec" in str(raised.value)


def is_over(process: int) -> bool:
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().split()[2] == "Z"


async def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path, real_loop: None) -> None:
    one = plugin(tmp_path, f"sleep 600 & echo $! >{tmp_path}/child; wait", seconds_max=0.3)
    with pytest.raises(AccessUnusable, match=r"gave no answer within 0\.3 s"):
        await one.run()
    child = int((tmp_path / "child").read_text() or "0")
    while not is_over(child):  # it was sent a signal, and the kernel ends it when it runs next
        os.sched_yield()


async def test_a_program_that_is_not_there(tmp_path: Path, real_loop: None) -> None:
    one = plugin(tmp_path, "", command="no-such-program-anywhere", install_hint="get it from x")
    with pytest.raises(AccessUnusable, match=r"exec\.command: cannot run 'no-such-program-anywhere'.*get it from x"):
        await one.run()


def test_what_cannot_work_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(AccessUnusable, match="interactiveMode is 'Always'; nobody can be asked"):
        plugin(tmp_path, "", interactive_mode="Always")
    cluster = FoundCluster(tmp_path, "c", ClusterFields())
    fields = ExecFields(command="x", api_version="client.authentication.k8s.io/v1alpha1")
    with pytest.raises(AccessUnusable, match=r"apiVersion is .*v1alpha1'; it must be"):
        ExecPlugin(fields, "e", tmp_path, cluster, {})


async def test_a_kubeconfig_with_a_plugin_beside_it(tmp_path: Path, real_loop: None) -> None:
    program(tmp_path, printed({"token": "from-the-plugin"}))
    user = {"exec": {"command": "./plugin", "apiVersion": VERSION}}
    path = written(tmp_path / "config", config(None, user))

    async def read(path: Path) -> bytes:
        return read_now(path)

    access = from_kubeconfig([path], None, dict(os.environ), read_file=read)
    assert isinstance(access, Access)
    credentials = await access.credentials()
    assert credentials.authorization == "Bearer from-the-plugin"
    await asyncio.sleep(0)
    assert await access.credentials() is credentials
