"""The story of one id: every fact about it, in the words of the log, and why it waited.

An id may be that of an application and of an ask at the same time; the story then covers both. Facts about a resource
manager as a whole are included once the id is known, because they explain what happens to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from heapq import nsmallest
from typing import Any, NamedTuple, get_args

from schedulerd.core.language.facts.configuration import ConfigurationRejected, ConfigurationUpdated
from schedulerd.core.language.facts.fact import CycleRan, Fact, ResourceManagerChanged
from schedulerd.core.language.facts.preemption import Preempted
from schedulerd.core.language.specs import ConfigurationText
from schedulerd.core.scheduler import Scheduler
from schedulerd.instant import Instant
from schedulerd.observe.log_events import described
from schedulerd.replay.names import ApplicationName, application_of
from schedulerd.replay.playback import Step
from schedulerd.replay.why_pending import why_pending

WAITS = "waits"
"""The event of a row that is no fact: why something is pending."""
NEAREST_MAX = 5
COMPARED_MAX = 20_000
"""Maximum number of ids that are compared to find similar ones; with more, only ids with the same beginning are."""

_KINDS = {
    "application_id": "application",
    "in_favour_of": "application",
    "allocation_key": "ask",
    "victim_keys": "ask",
    "uuid": "allocation",
    "replaces": "allocation",
    "node_id": "node",
    "queue": "queue",
    "object_id": "object",
}
"""What a field of a fact names."""
_DETAIL = re.compile(r":[^;\n]*|\d+")
"""Of a reason: what comes behind a colon, and numbers."""
_CONTEXT = (ResourceManagerChanged, ConfigurationUpdated, ConfigurationRejected)

_Place = tuple[str, Callable[[Any], str | tuple[str, ...]]]
"""A kind of thing, and the id or ids of that kind in a fact."""


class Row(NamedTuple):
    """One line of a story."""

    now: Instant
    event: str
    """As in the log, or `WAITS`."""
    values: Mapping[str, object]
    """By name; times are wall time, in nanoseconds since the Unix epoch."""


class Story:
    """Give it every step of a history with `observe`, then `finish` it."""

    def __init__(self, subject: str, scheduler: Scheduler) -> None:
        """`scheduler` makes the steps; it is only read here."""
        self.subject = subject
        self.rows: list[Row] = []
        self._scheduler = scheduler
        self._kinds: dict[str, None] = {}
        self._rm_ids: dict[str, None] = {}
        self._names: dict[ApplicationName, None] = {}
        """The applications that it is, or that it is an ask of."""
        self._ids: set[str] = set()
        """All others, for as long as it has not occurred."""
        self._waits: dict[tuple[ApplicationName, str], Row] = {}
        """Why it waits, as it was told last, by application and reason without details; of what held then."""

    @property
    def kinds(self) -> list[str]:
        """The kinds of object with this id: application, ask, allocation, node, queue, or object where a fact does not
        say."""
        return list(self._kinds)

    def observe(self, step: Step, now: Instant) -> None:
        """Processes one step, which was at `now`."""
        told = False
        refused = False
        for fact in step.facts:
            if self._is_about(fact):
                told = True
                self.rows.append(_row(now, fact))
            refused |= isinstance(fact, CycleRan) and fact.classes_blocked > 0
        if told or refused:
            self._tell_why(now, again=False)

    def finish(self, now: Instant) -> None:
        """Adds why the id is pending at the end, if it is."""
        self._tell_why(now, again=True)

    def nearest(self) -> list[str]:
        """The ids of the history that look most like the one that was asked for."""
        ids: Iterable[str] = self._ids
        if len(self._ids) > COMPARED_MAX:
            start = self.subject[: max(1, len(self.subject) // 2)]
            ids = nsmallest(COMPARED_MAX, (one for one in self._ids if one.startswith(start)))
        return get_close_matches(self.subject, sorted(ids), NEAREST_MAX, cutoff=0.5)

    def _is_about(self, fact: Fact) -> bool:
        if self.rows and isinstance(fact, _CONTEXT):
            return fact.rm_id in self._rm_ids
        found = False
        for kind, get in _PLACES[type(fact)]:
            ids = get(fact)
            subject = self.subject.lower() if kind == "queue" else self.subject
            for one in (ids,) if isinstance(ids, str) else ids:
                if one == subject:
                    found = True
                    self._note(kind, fact)
                elif not self._kinds:
                    self._ids.add(one)
        return found

    def _note(self, kind: str, fact: Any) -> None:
        self._kinds[kind] = None
        self._ids.clear()
        self._rm_ids[fact.rm_id] = None
        if self.subject in (getattr(fact, "application_id", ""), getattr(fact, "allocation_key", "")):
            self._names[application_of(fact)] = None

    def _tell_why(self, now: Instant, *, again: bool) -> None:
        """Says each reason that did not hold when this was called last; its details always change.

        With `again` also those that did, unless they were said in the same words at the same time.
        """
        found: dict[tuple[ApplicationName, str], tuple[str, list[str]]] = {}
        for name in self._names:
            key = "" if name.application_id == self.subject else self.subject
            for sentence, keys in why_pending(self._scheduler, name, key).items():
                found.setdefault((name, _DETAIL.sub("", sentence)), (sentence, []))[1].extend(keys)
        before, self._waits = self._waits, {}
        for reason, (sentence, keys) in found.items():
            name, _ = reason
            values = {"allocation_key": keys[0], "asks": len(keys), "reason": sentence}
            row = Row(now, WAITS, {"rm_id": name.rm_id, "partition": name.partition, **values})
            said = before.get(reason)
            if said is None or (again and said != row):
                self.rows.append(row)
            else:
                row = said
            self._waits[reason] = row


def _row(now: Instant, fact: Fact) -> Row:
    """The text of a queue file is left out: it may be a secret, and is no part of the story."""
    event, values = described(fact, now)
    shown = {name: one.source if isinstance(one, ConfigurationText) else one for name, one in values.items()}
    return Row(now, event, shown)


def _places(fact_type: type) -> tuple[_Place, ...]:
    names = {field.name for field in fields(fact_type)}
    found: list[_Place] = [(kind, _field(name)) for name, kind in _KINDS.items() if name in names]
    if fact_type is Preempted:
        found.append(("allocation", lambda fact: tuple(uuid for _, uuid in fact.victims)))
    return tuple(found)


def _field(name: str) -> Callable[[Any], str | tuple[str, ...]]:
    return lambda fact: getattr(fact, name)


_PLACES: Mapping[type, tuple[_Place, ...]] = {fact_type: _places(fact_type) for fact_type in get_args(Fact)}
