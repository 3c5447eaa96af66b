"""TLS to a server that demands a client certificate: who is trusted, by which name."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from schedulerd.kubernetes.api import Transport, Unreachable, server_version
from schedulerd.kubernetes.api.resources import PODS
from schedulerd.kubernetes.api.transport import Request
from schedulerd.kubernetes.auth import Access, AccessUnusable, Material
from schedulerd.kubernetes.auth.tls import tls_context
from tests.kubernetes.auth.certificates import AUTHORITY, CERTIFICATE, FOLDER, KEY, SERVER_CERTIFICATE, SERVER_KEY

KEY_WITH_PASSPHRASE = load_pem_private_key(KEY, None).private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
)


@asynccontextmanager
async def server() -> AsyncIterator[int]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(SERVER_CERTIFICATE, SERVER_KEY)
    context.load_verify_locations(FOLDER / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED

    async def version(request: web.Request) -> web.Response:
        return web.json_response({"gitVersion": "v1.2.3"})

    app = web.Application()
    app.router.add_get("/version", version)
    app.router.add_post("/version", version)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def asked(port: int, material: Material, name: str | None = None, *, insecure: bool = False) -> str:
    async def read() -> Material:
        return material

    transport = Transport(Access(f"https://127.0.0.1:{port}", read, tls_server_name=name, insecure=insecure))
    try:
        is_written = await has_written(transport)
        try:
            version = (await server_version(transport)).git_version
        except Unreachable:
            assert not is_written
            raise
        assert is_written
        return version
    finally:
        await transport.close()
        await asyncio.sleep(0.01)  # an orderly end of TLS


async def has_written(transport: Transport) -> bool:
    """Writes have connections of their own, which trust the same."""
    try:
        await transport.request(Request("POST", PODS, "/version", body=b"{}"))
    except Unreachable:
        return False
    return True


GOOD = Material(ca=AUTHORITY, certificate=CERTIFICATE, key=KEY)


async def test_a_client_certificate_and_a_private_authority(real_loop: None) -> None:
    async with server() as port:
        assert await asked(port, GOOD, "localhost") == "v1.2.3"


async def test_another_name_or_authority_is_not_trusted(real_loop: None) -> None:
    async with server() as port:
        with pytest.raises(Unreachable, match="certificate"):
            await asked(port, GOOD, "elsewhere.example")
        stranger = Material(ca=(FOLDER / "other-ca.pem").read_bytes(), certificate=CERTIFICATE, key=KEY)
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await asked(port, stranger, "localhost")
        assert await asked(port, Material(certificate=CERTIFICATE, key=KEY), "elsewhere.example", insecure=True)


async def test_no_certificate_no_answer(real_loop: None) -> None:
    async with server() as port:
        with pytest.raises(Unreachable):
            await asked(port, Material(ca=AUTHORITY), "localhost")


@pytest.mark.parametrize(("key", "why"), [(None, "without its key"), (KEY_WITH_PASSPHRASE, "without a passphrase")])
def test_a_certificate_needs_a_key_that_can_be_read(key: bytes | None, why: str) -> None:
    with pytest.raises(AccessUnusable, match=why):
        tls_context(AUTHORITY, CERTIFICATE, key, insecure=False)
