"""Lists in pages: filtered, sorted, and written object by object.

First the objects of the page are selected, in slices; then each is written as it is at that moment, in slices too, and
what has vanished meanwhile is skipped. A cursor is the key of the last object: of what exists throughout, each object
is seen once.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from schedulerd.daemon.admin.api.answers import API_JSON
from schedulerd.daemon.admin.api.finding import Where
from schedulerd.daemon.admin.api.models import documented
from schedulerd.daemon.admin.api.problems import too_busy
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.runtime.json_stream import PAUSE, Listed
from schedulerd.daemon.runtime.shares import NoneLeft, Shared

PAGE_ITEMS_MAX = 1_000
"""Objects of one page."""
SCANNED_MAX = 20_000
"""Objects that one page may look at in the order of submission; then it ends with a cursor, however few it found."""
SORTED_MAX = 10_000
"""Matching objects that may be sorted by a field that changes."""
LISTS_MAX = 2
"""Pages that are written at a time, of all clients."""
_CURSOR_LENGTH_MAX = 4_096
"""Characters of a cursor."""

_CHUNK = 64

ThingT = TypeVar("ThingT")
ItemT = TypeVar("ItemT")
Key: TypeAlias = tuple[Any, ...]
"""What orders objects; strings and numbers, always of the same types in one list."""


class PageQuery(Where):
    """Which page of a list."""

    limit: int = Field(default=100, ge=1, le=PAGE_ITEMS_MAX)
    """Objects on the page. A page can have fewer, and still name a next one."""
    cursor: str = Field(default="", max_length=_CURSOR_LENGTH_MAX, pattern=r"^[A-Za-z0-9_\-]*$")
    """`next` of the page before; empty for the first page. Filters and sorting must be the same."""


@documented
@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """A page of a list."""

    items: list[ItemT]
    next: str
    """The cursor of the next page; '' on the last one."""


class Order(NamedTuple):
    """A way to sort a list."""

    key: Callable[[Any], Key]
    """Ends with the default key, so that there are no ties."""
    types: tuple[type, ...]
    """Of the parts of the key."""
    changes: bool = False
    """Whether the key of an object may change."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[ThingT]):
    """The objects of a list, and how they are chosen and shown."""

    candidates: Callable[[Key | None], Iterable[ThingT | None]]
    """All objects that may be on the page. If `is_ordered`, in order and only those after the key. None marks a stop
    after many objects that were passed over."""
    keeps: Callable[[ThingT], bool]
    """The filter."""
    show: Callable[[ThingT], object | None]
    """The model of an object; None if it has vanished."""
    is_current: Callable[[], bool]
    """Whether the partition still exists."""
    order: Order
    is_ordered: bool = False
    descending: bool = False


class _Selected(NamedTuple):
    things: list[Any]
    next: Key | None


def choose_order(orders: dict[str, Order], sort: str) -> tuple[Order, bool]:
    """The order for the parameter `sort`, and whether it is descending."""
    return orders[sort.removeprefix("-")], sort.startswith("-")


def encode_cursor(key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, types: tuple[type, ...]) -> Key | None:
    """The key in a cursor; None without one. Raises `HTTPException` with 422."""
    if not cursor:
        return None
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError) as error:
        raise HTTPException(422, "cursor: is none of ours; take `next` of the page before as it is") from error
    if not isinstance(parts, list) or tuple(type(one) for one in parts) != types:
        raise HTTPException(422, "cursor: is of another list or another sorting; begin without one")
    return tuple(parts)


def select(listing: Listing[ThingT], limit: int, after: Key | None) -> Generator[None, None, _Selected]:
    """Chooses the objects of a page; stops after every few objects."""
    if listing.is_ordered and not listing.descending:
        return (yield from _select_in_order(listing, limit, after))
    key, choose = listing.order.key, _is_after(after, descending=listing.descending)
    best = _Best(limit + 1, descending=listing.descending)
    matching = 0
    candidates = iter(listing.candidates(None))
    while chunk := list(islice(candidates, _CHUNK)):
        matches = [(key(one), one) for one in chunk if one is not None and listing.keeps(one)]
        matching += len(matches)
        if listing.order.changes and matching > SORTED_MAX:
            raise HTTPException(422, f"sort: more than {SORTED_MAX} objects match, and this field changes; filter more")
        best.add([one for one in matches if choose(one[0])])
        yield
        if not listing.is_current():
            break
    found = best.found()
    things = [one for _, one in found[:limit]]
    return _Selected(things, found[limit - 1][0] if len(found) > limit else None)


class _Best:
    """The first `count` of many objects by key, found with a small part of them in memory."""

    def __init__(self, count: int, *, descending: bool) -> None:
        self._count = count
        self._descending = descending
        self._kept: list[tuple[Key, Any]] = []

    def add(self, some: list[tuple[Key, Any]]) -> None:
        self._kept += some
        if len(self._kept) > 2 * self._count + _CHUNK:
            self._kept = self.found()

    def found(self) -> list[tuple[Key, Any]]:
        return sorted(self._kept, key=lambda one: one[0], reverse=self._descending)[: self._count]


def _select_in_order(listing: Listing[ThingT], limit: int, after: Key | None) -> Generator[None, None, _Selected]:
    found: list[ThingT] = []
    last: ThingT | None = None
    for scanned, one in enumerate(listing.candidates(after)):
        if scanned % _CHUNK == _CHUNK - 1:
            yield
            if not listing.is_current():
                break
        if one is None:
            continue
        if last is not None and (len(found) >= limit or scanned >= SCANNED_MAX):
            return _Selected(found, listing.order.key(last))
        if listing.keeps(one):
            found.append(one)
        last = one
    return _Selected(found, None)


def _is_after(after: Key | None, *, descending: bool) -> Callable[[Key], bool]:
    if after is None:
        return lambda _key: True
    return (lambda key: key < after) if descending else (lambda key: key > after)


class PageAnswer(Response):
    """Selects and writes a page. At most `LISTS_MAX` of them run at a time."""

    media_type = "application/json"

    def __init__(
        self,
        queries: StateQueries,
        lists: Shared,
        listing: Listing[Any],
        query: PageQuery,
    ) -> None:
        """Raises `HTTPException` if the cursor cannot be read."""
        super().__init__(headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self._queries, self._lists, self._listing = queries, lists, listing
        self._limit = query.limit
        self._after = decode_cursor(query.cursor, listing.order.types)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises `HTTPException` as long as nothing is sent."""
        try:
            with self._lists.held(None):
                selected = await self._queries.finish(select(self._listing, self._limit, self._after))
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                async for piece in self._queries.pieces(self._write(selected)):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except NoneLeft as error:
            raise too_busy(f"{error}; try again when they are written") from error

    def _write(self, selected: _Selected) -> Iterator[bytes]:
        cursor = encode_cursor(selected.next) if selected.next is not None else ""
        page = {"items": Listed(self._items(selected.things)), "next": cursor}
        return map(str.encode, API_JSON.pieces(page))

    def _items(self, things: Iterable[Any]) -> Iterator[object]:
        for thing in things:
            item = self._listing.show(thing) if self._listing.is_current() else None
            yield PAUSE if item is None else item
