"""What clients can keep busy at the port of the webhooks, with raw sockets: connections, bodies and reviews."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import aiohttp
import pytest

from schedulerd.kubernetes.admission import listener as listener_module
from schedulerd.kubernetes.admission import server as server_module
from schedulerd.kubernetes.admission.metrics import AdmissionMetrics
from schedulerd.kubernetes.admission.server import WebhookServer
from schedulerd.kubernetes.admission.serving import server_context
from tests.kubernetes.admission.reviews import pod, review
from tests.kubernetes.admission.test_server import HOST, connect, decide, made, serving, trusting

pytestmark = pytest.mark.timeout(60)


async def test_connections_are_bounded(real_loop: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "CONNECTIONS_MAX", 2)
    async with serving() as served:
        open_ones = [await connect(served) for _ in range(2)]
        with pytest.raises(OSError, match=r"reset|closed|EOF|^$"):
            await connect(served)
        assert served.count("connections_refused_total") == 1
        for _, writer in open_ones:
            writer.transport.abort()


async def test_reviews_are_bounded(real_loop: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REVIEWS_MAX", 0)
    async with serving() as served:
        assert (await served.post(review(pod())))[0] == 503
        assert served.count("reviews_failed_total", webhook="mutate", cause="busy") == 1


async def test_connections_count_before_they_say_anything(real_loop: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raw sockets without a handshake: others are refused at the limit of all, and at that of one address."""
    for name in ("CONNECTIONS_MAX", "PEER_CONNECTIONS_MAX"):
        with monkeypatch.context() as patched_limit:
            patched_limit.setattr(listener_module, name, 3)
            async with serving() as served:
                silent = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(3)]
                reader, refused = await asyncio.open_connection("127.0.0.1", served.port)
                assert await reader.read() == b""
                assert served.count("connections_refused_total") == 1
                for writer in (refused, *(writer for _, writer in silent)):
                    writer.transport.abort()
                async with asyncio.timeout(10):
                    while True:  # until their places are free again
                        with contextlib.suppress(aiohttp.ClientError):
                            assert (await served.post(review(pod())))[0] == 200
                            break


async def test_another_address_has_places_of_its_own(real_loop: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "PEER_CONNECTIONS_MAX", 2)
    async with serving() as served:
        silent = [
            await asyncio.open_connection("127.0.0.1", served.port, local_addr=("127.0.0.2", 0)) for _ in range(2)
        ]
        assert (await served.post(review(pod())))[0] == 200
        for _, writer in silent:
            writer.transport.abort()


async def test_a_handshake_that_never_comes_ends(real_loop: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "HANDSHAKE_SECONDS", 0.3)
    async with serving() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert served.server._listener._peers.total() == 0


async def test_bodies_that_never_come_take_no_place(real_loop: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REVIEWS_MAX", 1)
    async with serving() as served:
        waiting = [await connect(served) for _ in range(5)]
        for _, writer in waiting:
            writer.write(b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        await asyncio.sleep(0.1)
        assert (await served.post(review(pod())))[0] == 200
        for _, writer in waiting:
            writer.transport.abort()


async def test_large_bodies_are_bounded_together_and_small_ones_pass(
    real_loop: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = 200_000
    monkeypatch.setattr(server_module, "LARGE_BYTES_MAX", 2 * half)
    async with serving() as served:
        waiting = [await connect(served) for _ in range(2)]
        for _, writer in waiting:
            writer.write(b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b" " * half)
        async with asyncio.timeout(10):
            while served.server._large_bytes < 2 * half:  # noqa: ASYNC110 - what has arrived tells nobody
                await asyncio.sleep(0.01)
        assert (await served.post(review(pod())))[0] == 200
        large = review({**pod(), "x": ["text"] * 20_000})
        assert (await served.post(large))[0] == 503
        assert served.count("reviews_failed_total", webhook="mutate", cause="busy") == 1
        for _, writer in waiting:
            writer.transport.abort()
        async with asyncio.timeout(10):
            while served.server._large_bytes:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        assert (await served.post(large))[0] == 200


@pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6 here")
async def test_an_address_of_ipv6_is_for_both_families(real_loop: None) -> None:
    certificates = made()
    server = WebhookServer("[::]:0", {"mutate": decide}, AdmissionMetrics())
    server.use(server_context(certificates.certificate, certificates.key))
    port = await server.start()
    for host in ("::1", "127.0.0.1"):
        _, writer = await asyncio.open_connection(host, port, ssl=trusting(certificates), server_hostname=HOST)
        writer.close()
    await server.stop(0.1)
