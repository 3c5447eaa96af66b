"""Random queue trees: any request class up to four levels below the root, with all that decides who is next set at
random.

Names are the same few at every level, so that two trees drawn one after the other have queues in common: a reload from
the one to the other adds and removes queues, brings them back, and turns leaves into parents.

Hypothesis draws one number for a tree and a random source makes it up from that: drawn choice by choice, the trees of a
run would resemble each other far too much to reach what is rare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from random import Random

from hypothesis import strategies as st

from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    Acl,
    ApplicationOrder,
    LimitSpec,
    PriorityPolicy,
    QueueOrder,
    QueueProperties,
    QueueSpec,
)

NAMES = ("p", "q", "r")
DEPTH_MAX = 4
"""Levels below the root."""
QUEUES_MAX = 10
USERS = ("ann", "bob", "eve")
RESOURCES = ("memory", "gpu")


class Tree:
    def __init__(self, root: QueueSpec) -> None:
        self.root = root
        self.specs: Mapping[str, QueueSpec] = dict(_by_path(root, ""))
        """Every queue by path, parents before children."""

    def __repr__(self) -> str:
        """What a failing example is told by: each queue with what is not default."""
        shown = []
        for path, spec in self.specs.items():
            plain = replace(QueueSpec(spec.name), parent=spec.parent, children=spec.children)
            told = [one.name for one in fields(spec) if getattr(spec, one.name) != getattr(plain, one.name)]
            shown.append(f"{path}: {', '.join(f'{name}={getattr(spec, name)}' for name in told)}")
        return f"<Tree {'; '.join(shown)}>"

    @property
    def leaves(self) -> list[str]:
        return [path for path, spec in self.specs.items() if spec.is_leaf]


def _by_path(spec: QueueSpec, above: str) -> list[tuple[str, QueueSpec]]:
    path = f"{above}{spec.name}"
    return [(path, spec), *(item for child in spec.children for item in _by_path(child, f"{path}."))]


class _Grower:
    """Half of the trees have no limits at all, and half no quotas, so that the one does not hide the other."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._limited, self._capped = self._flip(), self._flip()
        self._left = QUEUES_MAX

    def grow(self, name: str = "root", depth: int = 0) -> QueueSpec:
        wanted = self._random.randint(0 if depth else 1, len(NAMES)) if depth < DEPTH_MAX else 0
        count = min(wanted, self._left)
        self._left -= count
        children = tuple(self.grow(one, depth + 1) for one in NAMES[:count])
        return replace(self._queue(name), children=children, parent=bool(children))

    def change(self, spec: QueueSpec) -> QueueSpec:
        """The same queues, some of them set up anew."""
        anew = self._queue(spec.name) if self._flip() else spec
        return replace(anew, children=tuple(map(self.change, spec.children)), parent=spec.parent)

    def _queue(self, name: str) -> QueueSpec:
        pick = self._random.choice
        return QueueSpec(
            name=name,
            guaranteed=Resources({one: self._random.randint(0, 20) for one in (*RESOURCES, "vcore") if self._flip()}),
            max=Limits(self._amounts() if self._capped and self._flip() else {}),
            max_applications=pick((0, 0, 0, 1, 2)),
            properties=QueueProperties(
                application_order=pick((ApplicationOrder.FIFO, ApplicationOrder.FAIR, *ApplicationOrder)),
                queue_order=pick(tuple(QueueOrder)),
                priority_sort=self._flip(),
                priority_policy=pick((PriorityPolicy.DEFAULT, *PriorityPolicy)),
                priority_offset=pick((0, 0, 1, -1)),
            ),
            limits=tuple(self._limit() for _ in range(self._random.randint(0, 2))) if self._limited else (),
            submit_acl=Acl(everybody=name == "root"),
        )

    def _limit(self) -> LimitSpec:
        return LimitSpec(
            users=self._random.choice(((), ("ann",), ("bob",), ("*",), ("*",))),
            groups=self._random.choice(((), ("staff",), ("lab",), ("*",))),
            max=Limits(self._amounts()) if self._flip() else None,
            max_applications=self._random.choice((0, 0, 1, 2)),
        )

    def _amounts(self) -> dict[str, int]:
        return {name: self._random.randint(1, 12) for name in RESOURCES if self._flip()}

    def _flip(self) -> bool:
        return self._random.random() < 0.5


seeds = st.integers(0, 2**32 - 1)


def grown(seed: int) -> Tree:
    return Tree(_Grower(seed).grow())


def changed(tree: Tree, seed: int) -> Tree:
    """The same queues with other quotas, limits, orders and priorities."""
    return Tree(_Grower(seed).change(tree.root))


trees = st.builds(grown, seeds)

STAFF_FIRST = Tree(
    QueueSpec(
        "root",
        children=(
            QueueSpec("p", limits=(LimitSpec(groups=("staff",), max_applications=1), LimitSpec(groups=("lab",)))),
        ),
        parent=True,
        submit_acl=Acl(everybody=True),
    )
)
"""A user in `lab` and `staff` counts for `staff`, whose limit stands first in the list (SEMANTICS I21)."""
