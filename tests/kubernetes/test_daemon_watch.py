"""The daemon of a standby is told who leads: once, again when that changes, and not for ever if it refuses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import grpc
import pytest

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd.kubernetes.shim import daemon_watch
from schedulerd.kubernetes.shim.daemon_watch import DaemonWatch

LIMIT_SECONDS = 20.0
TELL_SECONDS = 0.02


class FakeDaemon:
    def __init__(self, *codes: grpc.StatusCode) -> None:
        """Answers with these, and after that as a daemon does."""
        self.told: list[str] = []
        self._codes = list(codes)

    async def set_leader(
        self,
        request: admin_pb2.SetLeaderRequest,
        context: grpc.aio.ServicerContext[admin_pb2.SetLeaderRequest, admin_pb2.SetLeaderResponse],
    ) -> admin_pb2.SetLeaderResponse:
        assert request.rmID == "rm-1"
        self.told.append(request.leader)
        if self._codes:
            await context.abort(self._codes.pop(0), "no")
        return admin_pb2.SetLeaderResponse()

    async def until(self, *told: str) -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            while self.told != list(told):  # noqa: ASYNC110
                await asyncio.sleep(TELL_SECONDS)

    async def is_told_no_more(self) -> None:
        before = list(self.told)
        await asyncio.sleep(10 * TELL_SECONDS)
        assert self.told == before


@contextlib.asynccontextmanager
async def watching(daemon: FakeDaemon, leader: Callable[[], str]) -> AsyncIterator[None]:
    server = grpc.aio.server()
    method = grpc.unary_unary_rpc_method_handler(
        daemon.set_leader,
        request_deserializer=admin_pb2.SetLeaderRequest.FromString,
        response_serializer=admin_pb2.SetLeaderResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("schedulerd.v1.Admin", {"SetLeader": method}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    running = asyncio.create_task(DaemonWatch(f"127.0.0.1:{port}", lambda _: None, "rm-1", leader).run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.stop(None)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_watch, "POLL_SECONDS", TELL_SECONDS)


async def test_it_is_told_once_and_when_the_leader_changes(real_loop: None) -> None:
    daemon, leaders = FakeDaemon(), ["", "a"]
    async with watching(daemon, lambda: leaders[-1]):
        await daemon.until("a")
        await daemon.is_told_no_more()
        leaders.append("b")
        await daemon.until("a", "b")


@pytest.mark.parametrize("code", [grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.PERMISSION_DENIED])
async def test_one_that_refuses_is_left_alone(real_loop: None, code: grpc.StatusCode) -> None:
    daemon = FakeDaemon(code)
    async with watching(daemon, lambda: "a"):
        await daemon.until("a")
        await daemon.is_told_no_more()


async def test_it_is_told_again_after_a_failure(real_loop: None) -> None:
    daemon = FakeDaemon(grpc.StatusCode.UNAVAILABLE)
    async with watching(daemon, lambda: "a"):
        await daemon.until("a", "a")
        await daemon.is_told_no_more()
