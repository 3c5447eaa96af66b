"""What has become of asks and applications that the scheduler has no longer: for people who ask about them later.

The state keeps terminated applications for a while, and nothing of asks that have gone. Here the last of both are
remembered, of all resource managers, so that "not known" is said only of what was never seen, or is no longer
remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from schedulerd.core.language.checks import ID_LENGTH_MAX, message
from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts import fact as f
from schedulerd.core.language.facts.fact import Fact
from schedulerd.instant import Instant
from schedulerd.sentences.words import duration

REMEMBERED_MAX = 10_000
"""Asks, and applications, that are remembered: the newest. A few megabytes; tens of them with the longest ids
and reasons."""
TEXT_LENGTH_MAX = 1_024
"""Most characters of a reason that are remembered."""

_Name: TypeAlias = tuple[str, str, str, str]
"""Resource manager, partition, application and ask; '' for the application itself."""
_Told: TypeAlias = tuple[str, str]
"""What happened, and why; the reason may be ''."""

_RELEASES = {
    TerminationType.UNKNOWN_TERMINATION_TYPE: "was released",
    TerminationType.STOPPED_BY_RM: "was released by its resource manager",
    TerminationType.TIMEOUT: "was released, as its time was over",
    TerminationType.PREEMPTED_BY_SCHEDULER: "was preempted",
    TerminationType.PLACEHOLDER_REPLACED: "was released: a real allocation has its room",
}

_WITHDRAWALS = {
    f.WithdrawCause.RELEASED_BY_RM: "was withdrawn by its resource manager before it was allocated",
    f.WithdrawCause.APPLICATION_REMOVED: "was withdrawn, as its application was removed",
    f.WithdrawCause.APPLICATION_ENDED: "was withdrawn, as its application has ended",
    f.WithdrawCause.TIMEOUT: "was withdrawn, as its time was over",
}
"""Other causes are not the end of an ask."""


class Ended:
    """Give it every batch of facts."""

    def __init__(self) -> None:
        self._asks: OrderedDict[_Name, tuple[int, _Told]] = OrderedDict()
        """Each with the wall time."""
        self._applications: OrderedDict[_Name, tuple[int, _Told]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._asks) + len(self._applications)

    def observe(self, facts: Sequence[Fact], now: Instant) -> None:
        """A sink of the owner."""
        for fact in facts:
            tell = _TOLD.get(type(fact))
            if tell is not None and (told := tell(fact)) is not None:
                self._remember(fact, told, now.wall_ns)

    def ask(self, rm_id: str, partition: str, application_id: str, key: str, now_ns: int) -> str:
        """What has become of the ask, as a sentence; '' if nothing is known of it. `now_ns` is wall time."""
        known = self._asks.get((rm_id, partition, application_id, key))
        return _sentence(f"Ask {key} of application {application_id}", known, now_ns)

    def application(self, rm_id: str, partition: str, application_id: str, now_ns: int) -> str:
        """What has become of the application, as a sentence; '' if nothing is known of it. `now_ns` is wall time."""
        known = self._applications.get((rm_id, partition, application_id, ""))
        return _sentence(f"Application {application_id}", known, now_ns)

    def ids_of_namespaces(self, rm_id: str, partition: str, given: str, namespace: str) -> dict[str, None]:
        """Ids NAMESPACE.ID of which something is known, by the id that pods give: `given`. '' is any namespace."""
        names = (name for known in (self._applications, self._asks) for name in known)
        ids = (name[2] for name in names if name[:2] == (rm_id, partition) and name[2].endswith(f".{given}"))
        found = (one for one in ids if one.partition(".")[2] == given)
        return dict.fromkeys(one for one in found if not namespace or one.startswith(f"{namespace}."))

    def _remember(self, fact: Any, told: _Told, wall_ns: int) -> None:
        key = getattr(fact, "allocation_key", "")
        name = fact.rm_id, fact.partition, fact.application_id, key
        if max(len(fact.application_id), len(key)) > ID_LENGTH_MAX:
            return  # an ask or application with such an id was rejected
        known = self._asks if key else self._applications
        known[name] = wall_ns, told
        known.move_to_end(name)
        if len(known) > REMEMBERED_MAX:
            known.popitem(last=False)


def _sentence(what: str, known: tuple[int, _Told] | None, now_ns: int) -> str:
    if known is None:
        return ""
    at_ns, (happened, why) = known
    return f"{what} {happened} ({duration(now_ns - at_ns)} ago){f': {why}' if why else ''}."


def _released(fact: f.Released) -> _Told | None:
    if fact.slot:
        return None
    how = "has ended, as its node was removed" if fact.node_removed else _RELEASES[fact.termination]
    return f"ran on node {fact.node_id} and {how}", message(fact.message, TEXT_LENGTH_MAX)


def _withdrawn(fact: f.AskWithdrawn) -> _Told | None:
    how = _WITHDRAWALS.get(fact.cause) if not fact.slot else None
    return (how, message(fact.message, TEXT_LENGTH_MAX)) if how else None


def _rejected(fact: f.AskRejected | f.ApplicationRejected) -> _Told:
    return "was rejected", message(fact.reason, TEXT_LENGTH_MAX)


def _forgotten(fact: f.ApplicationForgotten) -> _Told | None:
    if not fact.queue:
        return None  # it was rejected, which is remembered with the reason
    return f"is gone, after it was {fact.state}", ""


# Each function takes exactly the fact of its row; a mapping of types to functions cannot tell the type checker so.
_TOLD: Mapping[type[Any], Callable[[Any], _Told | None]] = {
    f.Released: _released,
    f.AskWithdrawn: _withdrawn,
    f.AskRejected: _rejected,
    f.ApplicationRejected: _rejected,
    f.ApplicationForgotten: _forgotten,
}
