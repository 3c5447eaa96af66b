"""Kubeconfig files: what is read of them, and what is said about mistakes."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schedulerd.kubernetes.auth import Access, AccessUnusable, from_kubeconfig
from schedulerd.kubernetes.auth.files import read_now
from tests.kubernetes.auth.certificates import CERTIFICATE, KEY

SERVER = "https://10.0.0.1:6443"


async def read(path: Path) -> bytes:
    return read_now(path)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def config(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "batch"}}],
        "clusters": [{"name": "k", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        **more,
    }


def written(path: Path, content: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(content))
    return path


def load(*paths: Path, context: str | None = None) -> Access:
    return from_kubeconfig(list(paths), context, {}, read_file=read)


async def test_what_a_kubeconfig_says(tmp_path: Path) -> None:
    cluster = {
        "certificate-authority-data": encoded(CERTIFICATE),
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
    }
    access = load(written(tmp_path / "config", config(cluster, {"token": "t"})))
    assert (access.server, access.namespace, access.tls_server_name) == (SERVER, "batch", "kubernetes")
    assert access.proxy == "http://proxy:3128"
    credentials = await access.credentials()
    assert credentials.authorization == "Bearer t"
    assert credentials.tls is not None
    assert credentials.tls.check_hostname


async def test_yaml_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "# comment\ncurrent-context: c\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\n"
        "clusters:\n- name: k\n  cluster:\n    server: https://10.0.0.1:6443\n"
        "    extensions: [{name: x, extension: {a: 1}}]\n"
        "users:\n- name: u\n  user:\n    token: abc\npreferences: {}\n"
    )
    assert (await load(path).credentials()).authorization == "Bearer abc"


async def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    path = written(
        folder / "config",
        config(
            {"certificate-authority": "pki/ca.crt"},
            {"client-certificate": "pki/c.crt", "client-key": "pki/c.key", "tokenFile": "token"},
        ),
    )
    (folder / "pki").mkdir()
    for name, content in (("pki/ca.crt", CERTIFICATE), ("pki/c.crt", CERTIFICATE), ("pki/c.key", KEY)):
        (folder / name).write_bytes(content)
    (folder / "token").write_text("from-a-file\n")
    credentials = await load(path).credentials()
    assert credentials.authorization == "Bearer from-a-file"


async def test_data_wins_over_files(tmp_path: Path) -> None:
    user = {"client-certificate-data": encoded(CERTIFICATE), "client-key-data": encoded(KEY)}
    cluster = {"certificate-authority-data": encoded(CERTIFICATE), "certificate-authority": "missing"}
    credentials = await load(written(tmp_path / "config", config(cluster, user))).credentials()
    assert credentials.tls is not None
    assert credentials.authorization is None


async def test_of_several_files_the_first_that_has_a_name_counts(tmp_path: Path) -> None:
    first = written(tmp_path / "a" / "first", {"users": [{"name": "u", "user": {"tokenFile": "token"}}]})
    (tmp_path / "a" / "token").write_text("of-the-first")
    second = written(tmp_path / "b" / "second", config(None, {"token": "of-the-second"}))
    access = load(first, tmp_path / "missing", second)
    assert access.server == SERVER
    assert (await access.credentials()).authorization == "Bearer of-the-first"


async def test_another_context(tmp_path: Path) -> None:
    content = config()
    content["contexts"].append({"name": "other", "context": {"cluster": "k2"}})
    content["clusters"].append({"name": "k2", "cluster": {"server": "http://127.0.0.1:8001/prefix/"}})
    access = load(written(tmp_path / "config", content), context="other")
    assert (access.server, access.namespace) == ("http://127.0.0.1:8001/prefix", "default")
    assert (await access.credentials()).tls is None


async def test_insecure_means_that_nothing_is_verified(tmp_path: Path) -> None:
    access = load(written(tmp_path / "config", config({"insecure-skip-tls-verify": True})))
    context = (await access.credentials()).tls
    assert context is not None
    assert not context.check_hostname


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"current-context": ""}, "current-context is not set; it must name one of 'c'"),
        ({"current-context": "x"}, "current-context is 'x'; it must be one of 'c'"),
        (
            {"contexts": [{"name": "c", "context": {"cluster": "zz"}}]},
            r"contexts\[0\] \('c'\).cluster is 'zz'; it must be one of 'k'",
        ),
        ({"users": []}, r"contexts\[0\] \('c'\).user is 'u'; it must be one of \(there are none\)"),
        ({"clusters": [{"name": "k", "cluster": {}}]}, r"clusters\[0\] \('k'\).cluster.server is ''; it must be a URL"),
        (
            {"clusters": [{"name": "k", "cluster": {"server": "10.0.0.1:6443"}}]},
            "server is '10.0.0.1:6443'; it must be a URL with https or http, such as https://10.0.0.1:6443",
        ),
        (
            {"clusters": [{"name": "k", "cluster": {"server": "https://x:y"}}]},
            "server is 'https://x:y'; it must be a URL",
        ),
        (
            {"clusters": [{"name": "k", "cluster": {"server": SERVER, "proxy-url": "socks5://p:1"}}]},
            "proxy-url is 'socks5://p:1'; it must be a URL with http or https",
        ),
        (
            {
                "clusters": [
                    {
                        "name": "k",
                        "cluster": {
                            "server": SERVER,
                            "insecure-skip-tls-verify": True,
                            "certificate-authority": "x",
                        },
                    }
                ]
            },
            "insecure-skip-tls-verify is true although a certificate authority is given",
        ),
        ({"clusters": {"k": 1}}, "not a kubeconfig: Expected `array | null`, got `object` - at `.*clusters`"),
        ({"users": [{"name": "u", "user": {"username": "x"}}]}, "username: API servers take no passwords any longer"),
        ({"users": [{"name": "u", "user": {"auth-provider": {}}}]}, "auth-provider: was replaced by exec plugins"),
        ({"users": [{"name": "u", "user": {"as": "admin"}}]}, "as: impersonation is not supported"),
        ({"users": [{"name": "u", "user": {"client-key": "k"}}]}, "client-certificate is missing"),
        ({"users": [{"name": "u", "user": {"client-certificate": "k"}}]}, "client-key is missing"),
        ({"users": [{"name": "u", "user": {"token": "a b"}}]}, r"users\[0\] \('u'\).user.token: has blanks"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    path = written(tmp_path / "config", {**config(), **changes})
    with pytest.raises(AccessUnusable, match=text) as raised:
        load(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("cluster", "user", "text"),
    [
        ({"certificate-authority-data": "%%"}, {}, "certificate-authority-data: is not base64"),
        ({"certificate-authority-data": encoded(b"x")}, {}, "certificate authority is not usable"),
        ({"certificate-authority": "none"}, {}, "certificate-authority: .*none: cannot be read: No such file"),
        (
            {},
            {"client-certificate-data": encoded(CERTIFICATE), "client-key-data": encoded(b"secret-key")},
            "the client certificate and its key are not usable",
        ),
        ({}, {"tokenFile": "none"}, "none: cannot be read"),
    ],
)
async def test_a_file_that_cannot_be_used_is_named(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], text: str
) -> None:
    with pytest.raises(AccessUnusable, match=text) as raised:
        await load(written(tmp_path / "config", config(cluster, user))).credentials()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"a: [", "line 1: not valid YAML"),
        (b"\xff", "byte 0 is not UTF-8"),
        (b"[" * 1_000, "not valid YAML"),
        (b"x" * 1_100_000, "has more than 1048576 bytes"),
        (b"- a\n", "not a kubeconfig: Expected `object`, got `array`"),
    ],
    ids=["cut", "binary", "deep", "large", "list"],
)
def test_a_file_that_is_none(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(AccessUnusable, match=text):
        load(path)


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(AccessUnusable, match="cannot be read: No such file"):
        from_kubeconfig([tmp_path / "none"], None, {}, must_exist=True)
    with pytest.raises(AccessUnusable, match="current-context is not set"):
        from_kubeconfig([tmp_path / "none"], None, {})
