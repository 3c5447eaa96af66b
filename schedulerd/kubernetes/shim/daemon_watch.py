"""Whether the daemon of a standby can be reached: without it, this replica must not be elected. The daemon is told who
leads, as people ask it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import grpc

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc
from schedulerd.client.channel import open_channel

LOG = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""After a change of the leader, or a failure, the daemon is told within this time."""
TELL_SECONDS = 2.0


class DaemonWatch:
    """`run` it as a task; `changed` is called with what has become of `is_reachable`."""

    def __init__(self, target: str, changed: Callable[[bool], None], rm_id: str, leader: Callable[[], str]) -> None:
        self.is_reachable = False
        self._rm_id = rm_id
        self._leader = leader
        self._times_reached = 0
        self._target = target
        self._changed = changed

    async def run(self) -> None:
        """Keeps a connection open, until it is cancelled."""
        async with open_channel(self._target, None) as channel:
            telling = asyncio.create_task(self._tell(admin_pb2_grpc.AdminStub(channel)))
            try:
                while True:
                    state = channel.get_state(try_to_connect=True)
                    self._note(state)
                    await channel.wait_for_state_change(state)
            finally:
                telling.cancel()

    async def _tell(self, daemon: admin_pb2_grpc.AdminAsyncStub) -> None:
        """Who leads: once for each start of the daemon, and when it changes. One that refuses is not asked again."""
        told = ("", 0)
        while True:
            known = (self._leader(), self._times_reached)
            if self.is_reachable and known != told:
                try:
                    request = admin_pb2.SetLeaderRequest(rmID=self._rm_id, leader=known[0])
                    await daemon.SetLeader(request, timeout=TELL_SECONDS)
                    told = known
                except grpc.aio.AioRpcError as error:
                    if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                        LOG.info("the daemon does not take the name of the leader: %s", error.details())
                        told = known
            await asyncio.sleep(POLL_SECONDS)

    def _note(self, state: grpc.ChannelConnectivity) -> None:
        if state is grpc.ChannelConnectivity.READY:
            is_reachable = True
        elif state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
            is_reachable = False
        else:  # idle or about to connect: nothing is known yet
            return
        if is_reachable != self.is_reachable:
            self.is_reachable = is_reachable
            self._times_reached += is_reachable
            LOG.info("the daemon at %s can %sbe reached", self._target, "" if is_reachable else "no longer ")
            self._changed(is_reachable)
