"""Queues that are folded in the tree: kept in the address, so that it works without scripts and can be sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from schedulerd.core.state.model.queue import Queue
from schedulerd.daemon.admin.ui.context import Context

_LENGTH_MAX = 900
"""Characters of the paths of folded queues; with more, a queue is opened on a page of its own instead."""
OPEN, FOLDED = "▾", "▸"


class Fold(NamedTuple):
    """What stands before the name of a queue: a mark, its meaning in a word, and where it leads; all '' for a leaf."""

    mark: str = ""
    word: str = ""
    href: str = ""


class Folds:
    """The folded queues of a page."""

    def __init__(self, context: Context, to: Callable[[str], str]) -> None:
        """`to` makes the address of the page from the value of its parameter `fold`."""
        self._links, self._to = context.links, to
        self._folded = dict.fromkeys(context.params.get("fold", "").split())

    def walk(self, queue: Queue, deepest: int | None = None, depth: int = 0) -> Iterator[tuple[Queue, int, Fold]]:
        """The queue and those below it that are shown, parents before their children."""
        is_deepest = deepest is not None and depth >= deepest
        yield queue, depth, self._fold(queue, is_deepest=is_deepest)
        if queue.path not in self._folded and not is_deepest:
            for child in list(queue.children.values()):
                yield from self.walk(child, deepest, depth + 1)

    def _fold(self, queue: Queue, *, is_deepest: bool) -> Fold:
        if not queue.children:
            return Fold()
        if queue.path in self._folded:
            return Fold(FOLDED, "Unfold", self._to(" ".join(one for one in self._folded if one != queue.path)))
        folded = " ".join([*self._folded, queue.path])
        if is_deepest or len(folded) > _LENGTH_MAX:
            return Fold(FOLDED, "Open", self._links.to("queues", under=queue.written))
        return Fold(OPEN, "Fold", self._to(folded))
