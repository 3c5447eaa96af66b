"""The service account of a pod: its files, and that they change."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from schedulerd.kubernetes.auth import Access, AccessUnusable, Material, in_cluster, load_access
from schedulerd.kubernetes.auth.files import FileReader, read_now
from tests.kubernetes.auth.certificates import AUTHORITY, CERTIFICATE

ENVIRONMENT = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


async def read(path: Path) -> bytes:
    return read_now(path)


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_bytes(AUTHORITY)
    (tmp_path / "namespace").write_text("batch")
    return tmp_path


async def test_the_address_comes_from_the_environment_and_the_rest_from_files(account: Path) -> None:
    access = in_cluster(ENVIRONMENT, account, read)
    assert (access.server, access.namespace) == ("https://10.0.0.1:443", "batch")
    credentials = await access.credentials()
    assert credentials.authorization == "Bearer first"
    assert credentials.tls is not None
    assert len(credentials.tls.get_ca_certs()) == 1
    assert "first" not in repr(credentials) + repr(Material(token="first"))


@pytest.mark.parametrize(("told", "namespace"), [({"POD_NAMESPACE": "ours"}, "ours"), ({}, "default")])
def test_a_volume_may_leave_the_namespace_out(account: Path, told: dict[str, str], namespace: str) -> None:
    (account / "namespace").unlink()
    assert in_cluster({**ENVIRONMENT, **told}, account, read).namespace == namespace


def test_an_ipv6_address_gets_brackets(account: Path) -> None:
    assert in_cluster({**ENVIRONMENT, "KUBERNETES_SERVICE_HOST": "fd00::1"}, account).server == "https://[fd00::1]:443"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"KUBERNETES_SERVICE_HOST": ""}, "KUBERNETES_SERVICE_HOST is not set"),
        ({"KUBERNETES_SERVICE_PORT": "x"}, "KUBERNETES_SERVICE_PORT is 'x'; it must be a number from 1 to 65535"),
        ({"KUBERNETES_SERVICE_PORT": "70000"}, "it must be a number"),
    ],
)
def test_an_address_that_is_none(account: Path, changes: dict[str, str], text: str) -> None:
    with pytest.raises(AccessUnusable, match=text):
        in_cluster({**ENVIRONMENT, **changes}, account)


async def test_a_new_token_is_used_within_a_minute_and_the_tls_context_kept(account: Path) -> None:
    access = in_cluster(ENVIRONMENT, account, read)
    first = await access.credentials()
    (account / "token").write_text("second")
    assert await access.credentials() is first
    await asyncio.sleep(61.0)
    second = await access.credentials()
    assert second.authorization == "Bearer second"
    assert second.tls is first.tls
    assert access.refreshes == 1


async def test_a_new_authority_makes_a_new_context(account: Path) -> None:
    access = in_cluster(ENVIRONMENT, account, read)
    first = await access.credentials()
    (account / "ca.crt").write_bytes(AUTHORITY + CERTIFICATE)
    await asyncio.sleep(61.0)
    assert (await access.credentials()).tls is not first.tls


async def test_a_rejected_token_is_read_at_once_but_not_again_and_again(account: Path) -> None:
    access = in_cluster(ENVIRONMENT, account, read)
    first = await access.credentials()
    (account / "token").write_text("second")
    assert access.reject(first)
    second = await access.credentials()
    assert second.authorization == "Bearer second"
    assert access.reject(first), "somebody else was faster: there are others already"
    assert access.reject(second)
    assert await access.credentials() is second
    assert not access.reject(second)
    await asyncio.sleep(6.0)
    assert access.reject(second)


async def test_files_that_vanish_later_leave_what_there_is(account: Path) -> None:
    access = in_cluster(ENVIRONMENT, account, read)
    first = await access.credentials()
    (account / "token").unlink()
    await asyncio.sleep(61.0)
    assert await access.credentials() is first
    assert "No such file" in str(access.problem)
    (account / "token").write_text("second")
    await asyncio.sleep(11.0)
    assert (await access.credentials()).authorization == "Bearer second"
    assert access.problem is None


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "token: is empty; it must hold a bearer token"),
        (b"a b", "has blanks, line breaks or unprintable characters"),
        (b"\xff", "byte 0 is not ASCII"),
        (b"x" * 70_000, "has 70000 characters; at most 65536"),
        (b"x" * 2_000_000, "has more than 1048576 bytes"),
    ],
)
async def test_a_token_that_is_none(account: Path, content: bytes, text: str) -> None:
    (account / "token").write_bytes(content)
    with pytest.raises(AccessUnusable, match=text) as raised:
        await in_cluster(ENVIRONMENT, account, read).credentials()
    assert str(account / "token") in str(raised.value)


async def test_an_authority_that_is_none(account: Path) -> None:
    (account / "ca.crt").write_text("nothing")
    with pytest.raises(AccessUnusable, match=r"certificate authority is not usable.*must be PEM text"):
        await in_cluster(ENVIRONMENT, account, read).credentials()


async def test_one_reads_for_all_who_ask(account: Path) -> None:
    reads = 0

    async def material() -> Material:
        nonlocal reads
        reads += 1
        await asyncio.sleep(1.0)
        return Material(token="t")

    access = Access("http://x", material)
    await asyncio.gather(*(access.credentials() for _ in range(10)))
    assert reads == 1


async def test_a_read_is_not_given_up_with_the_request_that_asked_for_it() -> None:
    async def material() -> Material:
        await asyncio.sleep(20.0)
        return Material(token="t")

    access = Access("http://x", material)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(9.0):
                await access.credentials()
    assert (await access.credentials()).authorization == "Bearer t"
    assert asyncio.get_running_loop().time() == 20.0


async def test_a_read_that_nobody_waits_for_any_longer_is_given_up_at_the_end() -> None:
    async def material() -> Material:
        await asyncio.sleep(20.0)
        raise AccessUnusable("too late")

    access = Access("http://x", material)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await access.credentials()
    await access.close()


async def test_what_expires_is_asked_for_again_just_before(account: Path) -> None:
    loop = asyncio.get_running_loop()
    reads = 0

    async def material() -> Material:
        nonlocal reads
        reads += 1
        return Material(token=f"t{reads}", expires_s=loop.time() + 3_600.0)

    access = Access("http://x", material, wall_s=loop.time)
    await access.credentials()
    await asyncio.sleep(3_580.0)
    await access.credentials()
    assert reads == 1
    await asyncio.sleep(15.0)
    assert (await access.credentials()).authorization == "Bearer t2"


async def test_expired_credentials_are_not_used_when_there_are_no_others() -> None:
    loop = asyncio.get_running_loop()
    works = True

    async def material() -> Material:
        if not works:
            raise AccessUnusable("plugin is broken")
        return Material(token="t", expires_s=loop.time() + 100.0)

    access = Access("http://x", material, wall_s=loop.time)
    await access.credentials()
    works = False
    await asyncio.sleep(95.0)
    assert (await access.credentials()).authorization == "Bearer t"
    await asyncio.sleep(20.0)
    with pytest.raises(AccessUnusable, match="plugin is broken"):
        await access.credentials()


async def test_files_are_read_in_a_thread(account: Path, real_loop: None) -> None:
    reader = FileReader()
    assert await reader(account / "token") == b"first\n"
    with pytest.raises(AccessUnusable, match="is not a regular file; it must be one"):
        await reader(account)


async def test_a_disk_that_does_not_answer_is_given_up(
    account: Path, real_loop: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr("schedulerd.kubernetes.auth.files.read_now", lambda path: release.wait(30) and b"")
    reader = FileReader(seconds_max=0.01)
    with pytest.raises(AccessUnusable, match="no answer within"):
        await reader(account / "token")
    with pytest.raises(AccessUnusable, match="an earlier read of a file has not come back yet"):
        await reader(account / "token")
    release.set()


def test_the_environment_decides_which_way_is_taken(account: Path, tmp_path: Path) -> None:
    config = tmp_path / "config"
    text = (
        "{current-context: c, contexts: [{name: c, context: {cluster: k}}], "
        "clusters: [{name: k, cluster: {server: 'https://%s:1'}}]}"
    )
    config.write_text(text % "named")
    assert load_access(config, None, ENVIRONMENT, account).server == "https://named:1"
    assert load_access(None, None, {**ENVIRONMENT, "KUBECONFIG": str(config)}, account).server == "https://named:1"
    assert load_access(None, None, ENVIRONMENT, account).server == "https://10.0.0.1:443"
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    (home / ".kube" / "config").write_text(text % "home")
    assert load_access(None, None, {"HOME": str(home)}, account).server == "https://home:1"
    with pytest.raises(AccessUnusable, match="no way to an API server: name a kubeconfig, set KUBECONFIG"):
        load_access(None, None, {}, account)
