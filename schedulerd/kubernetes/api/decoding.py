"""Bytes of lists and watches to objects of one type.

A chunk of a watch is decoded in one call, which is what makes an event cheap. The rare rest goes line by line:
bookmarks and errors, whose objects need not be of the type, and objects that the type cannot hold. Such an object is
counted and passed over, as one pod of an unexpected form must not stop all others from being seen.
"""

from __future__ import annotations

from typing import Any, Generic, Literal

import msgspec

from schedulerd.kubernetes.api.errors import UNDECODABLE, AnswerUnusable
from schedulerd.kubernetes.api.status import Status
from schedulerd.kubernetes.api.watch_events import ObjectT, PlainObject

LINE_BYTES_MAX = 16 * 1024 * 1024
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchLine(msgspec.Struct, Generic[ObjectT], gc=False):
    """A change of an object. Other types of lines are no such, so that they are told apart while decoding."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: ObjectT


class _RawLine(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct, Generic[ObjectT]):
    metadata: _ListMeta
    items: list[ObjectT] | None = None


class _RawList(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class Bookmark(msgspec.Struct, frozen=True):
    """Everything up to this version was sent."""

    resource_version: str
    ends_list: bool
    """All initial events were sent, of a watch that was opened with them."""


class WatchError(msgspec.Struct, frozen=True):
    """The server ends the watch."""

    status: Status


class Passed(msgspec.Struct, frozen=True):
    """An object that the type cannot hold."""

    metadata: PlainObject
    error: str


class Page(msgspec.Struct, Generic[ObjectT]):
    items: list[ObjectT]
    resource_version: str
    continue_token: str
    passed: list[Passed]


class Decoder(Generic[ObjectT]):
    """For one type; `feed` keeps the beginning of a line until its end comes."""

    def __init__(self, type_: type[ObjectT]) -> None:
        self._object: msgspec.json.Decoder[ObjectT] = msgspec.json.Decoder(type_)
        self._lines: msgspec.json.Decoder[WatchLine[ObjectT]] = msgspec.json.Decoder(
            WatchLine[type_]  # type: ignore[valid-type]
        )
        self._page: msgspec.json.Decoder[_List[ObjectT]] = msgspec.json.Decoder(_List[type_])  # type: ignore[valid-type]
        self._raw_line = msgspec.json.Decoder(_RawLine)
        self._raw_list = msgspec.json.Decoder(_RawList)
        self._plain = msgspec.json.Decoder(PlainObject)
        self._status = msgspec.json.Decoder(Status)
        self._rest: list[bytes] = []
        self._rest_bytes = 0

    def reset(self) -> None:
        """Forgets the beginning of a line: a new watch starts."""
        self._rest.clear()
        self._rest_bytes = 0

    def feed(self, chunk: bytes) -> list[WatchLine[ObjectT] | Bookmark | WatchError | Passed]:
        """What the lines that end in `chunk` say. Raises `AnswerUnusable`."""
        end = chunk.rfind(b"\n") + 1
        if end == 0:
            self._keep(chunk)
            return []
        whole = b"".join([*self._rest, memoryview(chunk)[:end]])
        self.reset()
        if end < len(chunk):
            self._keep(chunk[end:])
        try:
            lines: list[Any] = self._lines.decode_lines(whole)
        except UNDECODABLE:
            return [self._line(line) for line in whole.splitlines() if line]
        return lines

    def page(self, body: bytes) -> Page[ObjectT]:
        """One answer to a list. Raises `AnswerUnusable`."""
        try:
            whole = self._page.decode(body)
            return Page(whole.items or [], whole.metadata.resource_version, whole.metadata.continue_token, [])
        except UNDECODABLE:
            pass
        try:
            raw = self._raw_list.decode(body)
        except UNDECODABLE as error:
            raise AnswerUnusable(f"not a list: {error}") from None
        page: Page[ObjectT] = Page([], raw.metadata.resource_version, raw.metadata.continue_token, [])
        for item in raw.items or ():
            one = self._one(item)
            if isinstance(one, Passed):
                page.passed.append(one)
            else:
                page.items.append(one)
        return page

    def _line(self, line: bytes) -> WatchLine[ObjectT] | Bookmark | WatchError | Passed:
        try:
            raw = self._raw_line.decode(line)
            if raw.type == "BOOKMARK":
                metadata = self._plain.decode(raw.object).metadata
                ends_list = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
                return Bookmark(metadata.resource_version, ends_list)
            if raw.type == "ERROR":
                return WatchError(self._status.decode(raw.object))
        except UNDECODABLE as error:
            raise AnswerUnusable(f"not a watch event: {error}") from None
        if raw.type not in ("ADDED", "MODIFIED", "DELETED"):
            raise AnswerUnusable(f"not a watch event: its type is {raw.type[:40]!r}")
        one = self._one(raw.object)
        return one if isinstance(one, Passed) else WatchLine(raw.type, one)  # type: ignore[arg-type]  # checked above

    def _one(self, raw: msgspec.Raw) -> ObjectT | Passed:
        try:
            return self._object.decode(raw)
        except UNDECODABLE as error:
            try:
                return Passed(self._plain.decode(raw), str(error))
            except UNDECODABLE:
                raise AnswerUnusable(f"not an object: {error}") from None

    def _keep(self, rest: bytes) -> None:
        self._rest.append(rest)
        self._rest_bytes += len(rest)
        if self._rest_bytes > LINE_BYTES_MAX:
            self.reset()
            raise AnswerUnusable(f"a watch event has more than {LINE_BYTES_MAX} bytes")
