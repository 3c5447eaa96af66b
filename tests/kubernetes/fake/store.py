"""The objects of the fake, with one version counter for all of them and a log of every change, as etcd has it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.kubernetes.fake.failures import from_the_future
from tests.kubernetes.fake.kinds import Kind

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True)
class Change:
    """`before` is None for a creation, `is_deletion` says that `object` is a last state."""

    version: int
    kind: Kind
    object: Object
    before: Object | None
    is_deletion: bool = False
    encoded: dict[str, bytes] = field(default_factory=dict)

    def line(self, type_: str) -> bytes:
        """As a line of a watch; many watches share it."""
        line = self.encoded.get(type_)
        if line is None:
            body = msgspec.json.encode(self.object)
            line = self.encoded[type_] = b'{"type":"%s","object":%s}\n' % (type_.encode(), body)
        return line


class Store:
    """Objects are never changed in place: `put` takes a new one, and who reads may keep what it got."""

    def __init__(self) -> None:
        self.version = self.compacted = 100
        """A watch can start here or later."""
        self.log: list[Change] = []
        self.listeners: list[Callable[[Change], None]] = []
        self._objects: dict[str, dict[Key, Object]] = {}

    def of(self, kind: Kind) -> dict[Key, Object]:
        return self._objects.setdefault(str(kind.resource), {})

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self.of(kind).get((namespace, name))

    def put(self, kind: Kind, thing: Object) -> Object:
        metadata = thing["metadata"]
        key = metadata.get("namespace", ""), metadata["name"]
        objects = self.of(kind)
        self.version += 1
        # A patched object shares what the patch has left alone with the one before it.
        thing = {**thing, "metadata": {**metadata, "resourceVersion": str(self.version)}}
        before = objects.get(key)
        objects[key] = thing
        self._tell(Change(self.version, kind, thing, before))
        return thing

    def remove(self, kind: Kind, key: Key) -> Object:
        last = copy.deepcopy(self.of(kind).pop(key))
        self.version += 1
        last["metadata"]["resourceVersion"] = str(self.version)
        self._tell(Change(self.version, kind, last, last, is_deletion=True))
        return last

    def drop(self, kind: Kind) -> None:
        """All objects of a kind vanish, with the kind."""
        for key in list(self.of(kind)):
            self.remove(kind, key)

    def changes_after(self, version: int) -> list[Change]:
        low, high = 0, len(self.log)
        while low < high:
            middle = (low + high) // 2
            if self.log[middle].version <= version:
                low = middle + 1
            else:
                high = middle
        return self.log[low:]

    def compact(self) -> None:
        """Forgets all changes so far."""
        self.compacted = self.version
        self.log.clear()

    def check_version(self, version: int) -> None:
        if version > self.version:
            raise from_the_future(version, self.version)

    def _tell(self, change: Change) -> None:
        self.log.append(change)
        for listener in self.listeners:
            listener(change)
