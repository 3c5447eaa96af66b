"""The queue files of resource managers as they are shown: rendered in the process that validates texts, and kept."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from schedulerd.config import QueueFileInvalid, ShownConfiguration
from schedulerd.core.language.specs import ConfigurationText
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.daemon.runtime.workers import Busy
from schedulerd.daemon.yunikorn.answers import busy

KEPT_MAX = 8
"""Queue files that are kept. A text of a megabyte, which is the largest, takes some ten times of it in memory."""

Show = Callable[[str, str], Awaitable[ShownConfiguration]]
"""Renders a text, given with the name of its source. Raises `QueueFileInvalid` and `Busy`."""


class Configurations:
    """Renders a queue file once, however many clients ask for it."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._kept: OrderedDict[str, asyncio.Task[ShownConfiguration]] = OrderedDict()

    async def of(self, rm: ResourceManager) -> ShownConfiguration:
        """The queue file of a resource manager. Raises `PeerError` if too many texts wait to be read."""
        configuration = rm.configuration
        if not configuration.text.strip():
            return ShownConfiguration()
        task = self._kept.get(configuration.text)
        if task is None:
            task = asyncio.create_task(self._render(configuration))
            self._kept[configuration.text] = task
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(configuration.text)
        try:
            return await asyncio.shield(task)  # others may wait for it if this client is gone
        except (Busy, QueueFileInvalid) as error:
            if self._kept.get(configuration.text) is task:
                del self._kept[configuration.text]
            reason = str(error) if isinstance(error, Busy) else "the queue file takes too long to be rendered"
            raise busy(reason) from error

    async def _render(self, configuration: ConfigurationText) -> ShownConfiguration:
        return await self._show(configuration.text, configuration.source)
