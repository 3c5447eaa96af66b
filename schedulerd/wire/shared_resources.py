"""Resource messages -> `Resources`, one shared object for each content.

Asks are the hot path. Pods come in a handful of sizes, so equal resource messages become one shared object: that saves
building it, and lets code that groups asks by size compare identities first. Both dialects serialise resources alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeAlias

from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd.core.language.checks import RESOURCE_NAMES_MAX
from schedulerd.core.language.resources import Resources

SHAPES_MAX = 4096
"""Distinct resource messages remembered; a resource manager that sends more sizes than this only loses the sharing."""

SHAPE_BYTES_MAX = 256
"""Longer resource messages, of more than about ten resources, are not remembered, so that what is remembered stays
within a few megabytes."""

ResourceMessage: TypeAlias = si_pb2.Resource | si_2021_pb2.Resource


class SharedResources:
    """Shared `Resources` of all requests of all clients."""

    def __init__(self) -> None:
        self.by_bytes: dict[bytes, Resources] = {}
        """By serialised message; for the loops that cannot afford a call per item. To be read only."""
        self._by_content: dict[tuple[tuple[str, int], ...], Resources] = {}

    def of(self, message: ResourceMessage) -> Resources:
        """The one shared object for this content, zeros included; no caller may change it."""
        raw = message.SerializeToString()
        found = self.by_bytes.get(raw)
        return found if found is not None else self._learn(raw, message)

    def _learn(self, raw: bytes, message: ResourceMessage) -> Resources:
        # The same map may be serialised in several orders, so the bytes are only a shortcut to the content.
        # One kind too many is enough for the scheduler to refuse them all.
        amounts: Iterable[tuple[str, Any]] = message.resources.items()
        items = sorted((name, quantity.value) for name, quantity in islice(amounts, RESOURCE_NAMES_MAX + 1))
        if len(raw) > SHAPE_BYTES_MAX:
            return Resources(items)
        if len(self.by_bytes) >= SHAPES_MAX:
            self.by_bytes.clear()
            self._by_content.clear()
        shared = self._by_content.setdefault(tuple(items), Resources(items))
        self.by_bytes[raw] = shared
        return shared
