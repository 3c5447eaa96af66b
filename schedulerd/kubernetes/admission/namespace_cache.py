"""Annotations of namespaces, kept by a watch."""

from __future__ import annotations

import asyncio
import logging

from schedulerd.kubernetes.api import ApiError, Deleted, Reflector, Resource, Transport, Upserted, WatchEvent, get
from schedulerd.kubernetes.api.resources import NAMESPACES
from schedulerd.kubernetes.objects.cluster import Namespace
from schedulerd.kubernetes.objects.meta import ObjectMeta

LOG = logging.getLogger(__name__)

LOOK_UP_SECONDS = 1.0
"""For a namespace that the watch has not told yet: pods may come right after it."""


class NamespaceCache:
    """`run` it as a task."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._known: dict[str, ObjectMeta] = {}
        self._reflector = Reflector(transport, NAMESPACES, Namespace, self._apply)

    @property
    def is_synced(self) -> bool:
        return self._reflector.is_synced

    async def run(self) -> None:
        """Forever; ends with the cancellation of its task."""
        await self._reflector.run()

    async def metadata(self, name: str) -> ObjectMeta | None:
        """None if the namespace is not known, and cannot be looked up in time."""
        if name in self._known:
            return self._known[name]
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                found = await get(self._transport, NAMESPACES, "", name, Namespace)
        except (ApiError, TimeoutError) as error:
            LOG.warning("namespace %s is not known, and goes by its name alone: %s", name[:63], error)
            return None
        return None if found is None else found.metadata

    async def _apply(self, resource: Resource, events: list[WatchEvent]) -> None:
        for event in events:
            if isinstance(event, Upserted):
                self._known[event.object.metadata.name] = event.object.metadata
            elif isinstance(event, Deleted):
                self._known.pop(event.object.metadata.name, None)
