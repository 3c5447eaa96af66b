"""The objects of one resource as they were last told, and what has to be told next.

The cache is what makes a watch whole after a gap: a list is compared with it, and what it no longer has was deleted.
"""

from __future__ import annotations

from typing import Generic

from schedulerd.kubernetes.api.watch_events import Deleted, KubernetesObject, Metadata, ObjectT, Upserted, WatchEvent

Key = tuple[str, str]


def key_of(metadata: Metadata) -> Key:
    return metadata.namespace, metadata.name


class ObjectCache(Generic[ObjectT]):
    """Objects by namespace and name."""

    def __init__(self) -> None:
        self.objects: dict[Key, ObjectT] = {}
        self._listed: set[Key] = set()

    def upsert(self, new: ObjectT, told: list[WatchEvent]) -> None:
        """Adds to `told` what a listed, added or modified object means; nothing if this version was told before."""
        metadata = new.metadata
        key = (metadata.namespace, metadata.name)
        old = self.objects.get(key)
        if old is not None:
            if old.metadata.uid != metadata.uid:  # deleted and made anew while nobody watched
                told.append(Deleted(old, was_missed=True))
                old = None
            elif old.metadata.resource_version == metadata.resource_version:
                return
        self.objects[key] = new
        told.append(Upserted(new, old))

    def delete(self, last: ObjectT, told: list[WatchEvent]) -> None:
        if self.objects.pop(key_of(last.metadata), None) is not None:
            told.append(Deleted(last))

    def begin_list(self) -> None:
        self._listed = set()

    def listed(self, new: ObjectT, told: list[WatchEvent]) -> None:
        self._listed.add(key_of(new.metadata))
        self.upsert(new, told)

    def passed(self, unreadable: KubernetesObject) -> None:
        """The list has an object that cannot be decoded: it exists, whatever is known of it."""
        self._listed.add(key_of(unreadable.metadata))

    def unlisted(self, key: Key) -> None:
        """An object was deleted before the list was complete."""
        self._listed.discard(key)

    def end_list(self) -> list[Deleted[ObjectT]]:
        """The list is complete: what it did not have was deleted."""
        gone = [key for key in self.objects if key not in self._listed]
        self._listed = set()
        return [Deleted(self.objects.pop(key), was_missed=True) for key in gone]
