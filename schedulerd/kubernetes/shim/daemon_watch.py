"""Whether the daemon of a standby can be reached: without it, this replica must not be elected."""

from __future__ import annotations

import logging
from collections.abc import Callable

import grpc

from schedulerd.client.channel import open_channel

LOG = logging.getLogger(__name__)


class DaemonWatch:
    """`run` it as a task; `changed` is called with what has become of `is_reachable`."""

    def __init__(self, target: str, changed: Callable[[bool], None]) -> None:
        self.is_reachable = False
        self._target = target
        self._changed = changed

    async def run(self) -> None:
        """Keeps a connection open, until it is cancelled."""
        async with open_channel(self._target, None) as channel:
            while True:
                state = channel.get_state(try_to_connect=True)
                self._note(state)
                await channel.wait_for_state_change(state)

    def _note(self, state: grpc.ChannelConnectivity) -> None:
        if state is grpc.ChannelConnectivity.READY:
            is_reachable = True
        elif state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
            is_reachable = False
        else:  # idle or about to connect: nothing is known yet
            return
        if is_reachable != self.is_reachable:
            self.is_reachable = is_reachable
            LOG.info("the daemon at %s can %sbe reached", self._target, "" if is_reachable else "no longer ")
            self._changed(is_reachable)
