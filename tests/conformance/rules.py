"""Where our answer is rightly another one than the peer's, recognised by what happened and never by a scenario's name.

So a recording that nobody has looked at yet is judged like those that are here. Each rule names the events and amounts
that follow from its cause, looks for the cause in what the core did (`History`), and excuses nothing beside them.
What is added after a plain kind of step is written in `differences.toml` (`addition`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.fact import (
    Allocated,
    ApplicationAccepted,
    ApplicationChanged,
    ApplicationForgotten,
    AskRejected,
    Fact,
    Released,
    ReleaseRequested,
)
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed
from schedulerd.core.language.lifecycles import ApplicationState
from tests.conformance.compare import Json, Rightly
from tests.conformance.documented import Addition, Additions
from tests.conformance.history import History, Turn
from tests.conformance.steps import Rename, aliases


@dataclass(frozen=True, slots=True)
class Played:
    """A scenario, what was recorded of it, and what we did."""

    scenario: Json
    recorded: Json
    answer: Json
    history: History

    @property
    def rename(self) -> Rename:
        return aliases(self.scenario)


class Rule(Rightly):
    """What follows from one decision of ours."""

    rule = ""
    source = ""

    def __init__(self, played: Played) -> None:
        self.played = played
        self.rename = played.rename

    def turns(self, check: int, step: str) -> Iterator[Turn]:
        """The steps of this kind since the check before."""
        return (turn for turn in self.played.history[check] if step in turn.step)


class ToldToGoOnce(Rule):
    rule = "an allocation that was told to go is not told again when its node goes"
    source = "SEMANTICS I10: when its node goes meanwhile, the one release that is out stands for both"

    def __init__(self, played: Played) -> None:
        super().__init__(played)
        told = {
            fact.uuid
            for turns in played.history
            for _, facts in turns
            for fact in facts
            if isinstance(fact, ReleaseRequested)
        }
        self._left = [
            [
                (fact.application_id, self.rename(fact.allocation_key))
                for step, facts in turns
                for fact in facts
                if isinstance(fact, Released) and not fact.confirm and fact.uuid in told
                if fact.node_id in _removed_nodes(step)
            ]
            for turns in played.history
        ]
        """By check: whose release was not said, and is not accounted for yet."""

    def omits(self, check: int, event: Json) -> bool:
        left, whose = self._left[check], (event.get("app"), event.get("key"))
        if (event.get("ev"), event.get("terminationType")) != ("released", "STOPPED_BY_RM") or whose not in left:
            return False
        left.remove(whose)
        return True


def _removed_nodes(step: Json) -> set[str]:
    return {item["id"] for item in step.get("nodes", ()) if item.get("action") == "DECOMISSION"}


class UnknownTypeIsAnswered(Rule):
    rule = "a release of an unknown type is answered with that type"
    source = (
        "SEMANTICS I11; gang design: a confirmation uses the same TerminationType as was set in the original message"
    )
    _UNKNOWN = TerminationType.UNKNOWN_TERMINATION_TYPE

    def says(self, check: int, recorded: Json, event: Json) -> bool:
        as_recorded = event | {"terminationType": "STOPPED_BY_RM"}
        if event["ev"] != "released" or event["terminationType"] != self._UNKNOWN.name or as_recorded != recorded:
            return False
        return any(
            self._is_meant(item, event)
            for turn in self.turns(check, "releaseAllocs")
            for item in turn.step["releaseAllocs"]
        )

    def _is_meant(self, item: Json, event: Json) -> bool:
        if item.get("terminationType") != self._UNKNOWN.name or item["app"] != event["app"]:
            return False
        return not item["key"] or bool(self.rename(item["key"]) == event["key"])


class _RejectedAsk(NamedTuple):
    check: int
    application_id: str
    key: str
    """As it is shown."""
    resources: Json
    """Of all its allocations together."""


class AskRejectedAtOnce(Rule):
    """An ask that the peer takes, and we reject when it comes. As long as it is pending in the recording, what is
    pending in its queues differs by it; whatever comes of it there is reported."""

    def __init__(self, played: Played) -> None:
        super().__init__(played)
        self._rejected = list(self._found(played.history))

    def _found(self, history: History) -> Iterator[_RejectedAsk]:
        for check, turns in enumerate(history):
            for step, facts in turns:
                for fact in facts:
                    self.hear(fact)
                    if isinstance(fact, AskRejected):
                        yield from self._asked(check, step, fact)

    def hear(self, fact: Fact) -> None:
        """Keeps what `is_cause` has to know."""
        raise NotImplementedError

    def is_cause(self, ask: Json) -> bool:
        """Whether this item of an `asks` step has to be rejected as things are now."""
        raise NotImplementedError

    def _asked(self, check: int, step: Json, fact: AskRejected) -> Iterator[_RejectedAsk]:
        for item in step.get("asks", ()):
            if (item["app"], item["key"]) == (fact.application_id, fact.allocation_key) and self.is_cause(item):
                count = item.get("maxAllocations", 1)
                amounts = {name: amount * count for name, amount in item.get("resources", {}).items()}
                yield _RejectedAsk(check, item["app"], self.rename(item["key"]), amounts)
                return

    def adds(self, check: int, event: Json) -> bool:
        return event.get("ev") == "askRejected" and any(
            (one.check, one.application_id, one.key) == (check, event["app"], event["key"]) for one in self._rejected
        )

    def counts(self, check: int, pointer: str, recorded: object, ours: object) -> bool:
        """What is pending in a queue may be more in the recording by just these asks, while they are pending there."""
        names = pointer.split("/")[1:]
        if len(names) != 4 or (names[0], names[2]) != ("queues", "pending"):
            return False
        more = sum(one.resources.get(names[3], 0) for one in self._pending_there(check, names[1]))
        return bool(more > 0 and _amount(recorded) - _amount(ours) == more)

    def _pending_there(self, check: int, queue: str) -> Iterator[_RejectedAsk]:
        recorded, ours = (
            result["checks"][check]["snapshot"]["apps"] for result in (self.played.recorded, self.played.answer)
        )
        for one in self._rejected:
            there, here = recorded.get(one.application_id, {}), ours.get(one.application_id, {})
            is_in_queue = f"{there.get('queue')}.".startswith(f"{queue}.")
            is_pending_there = one.key in there.get("pendingAsks", {}) and one.key not in here.get("pendingAsks", {})
            if one.check <= check and is_in_queue and is_pending_there:
                yield one


def _amount(value: object) -> int:
    return value if isinstance(value, int) else 0


class FailingTakesNoAsks(AskRejectedAtOnce):
    rule = "an ask for an application that is Failing is rejected at once with its state, and is not pending"
    source = "SEMANTICS I14"

    def __init__(self, played: Played) -> None:
        self._failing: set[str] = set()
        super().__init__(played)

    def hear(self, fact: Fact) -> None:
        if isinstance(fact, ApplicationChanged | ApplicationForgotten):
            self._failing.discard(fact.application_id)
        if isinstance(fact, ApplicationChanged) and fact.state is ApplicationState.FAILING:
            self._failing.add(fact.application_id)

    def is_cause(self, ask: Json) -> bool:
        return str(ask["app"]) in self._failing


class PlaceholderKeepsItsKey(AskRejectedAtOnce):
    rule = "a real ask with the key of a living placeholder is rejected, and is not pending"
    source = "SEMANTICS I14"

    def __init__(self, played: Played) -> None:
        self._placeholders: dict[str, tuple[str, str]] = {}
        """Application and key, by UUID."""
        super().__init__(played)

    def hear(self, fact: Fact) -> None:
        if isinstance(fact, Allocated) and fact.placeholder:
            self._placeholders[fact.uuid] = fact.application_id, fact.allocation_key
        elif isinstance(fact, Released):
            self._placeholders.pop(fact.uuid, None)

    def is_cause(self, ask: Json) -> bool:
        return not ask.get("placeholder", False) and (ask["app"], ask["key"]) in self._placeholders.values()


class SwapIsOneUpdate(Rule):
    rule = "the swap is one update: the application does not pass through Completing on its way"
    source = "SEMANTICS G4: the swap moves no application into Completing on its way"

    def __init__(self, played: Played) -> None:
        super().__init__(played)
        self._left: dict[tuple[int, str], int] = {}
        """By check and application: how many events are still to be accounted for, where any was missing."""

    def omits(self, check: int, event: Json) -> bool:
        """As often as the recording goes on from there, and as swaps of ours ended since the check before."""
        if (event.get("ev"), event.get("state")) != ("appUpdated", "Completing"):
            return False
        place = check, event["app"]
        left = self._left.setdefault(place, min(self._passed_through(*place), self._swaps(*place)))
        self._left[place] = left - 1
        return left > 0

    def _passed_through(self, check: int, application_id: str) -> int:
        states = [
            one["state"]
            for one in self.played.recorded["checks"][check]["events"]
            if one["ev"] == "appUpdated" and one["app"] == application_id
        ]
        return list(pairwise(states)).count(("Completing", "Running"))

    def _swaps(self, check: int, application_id: str) -> int:
        return sum(
            isinstance(fact, Allocated) and bool(fact.replaces) and fact.application_id == application_id
            for _, facts in self.played.history[check]
            for fact in facts
        )


class AcceptedHere(Rule):
    """Applications that the peer rejects and we accept: whatever is said of them, and what they have in the ledgers, is
    not in the recording, and the recorded rejections of their asks are not said."""

    def __init__(self, played: Played) -> None:
        super().__init__(played)
        rejected = {
            event["app"] for one in played.recorded["checks"] for event in one["events"] if event["ev"] == "appRejected"
        }
        self._here = {
            fact.application_id
            for turns in played.history
            for step, facts in turns
            for fact in facts
            if isinstance(fact, ApplicationAccepted) and fact.application_id in rejected
            for item in step.get("apps", ())
            if item["id"] == fact.application_id and self.is_cause(item, fact)
        }

    def is_cause(self, item: Json, fact: ApplicationAccepted) -> bool:
        """Whether this item of an `apps` step is accepted by the decision."""
        raise NotImplementedError

    def adds(self, check: int, event: Json) -> bool:
        return event.get("app") in self._here

    def omits(self, check: int, event: Json) -> bool:
        return event.get("app") in self._here

    def counts(self, check: int, pointer: str, recorded: object, ours: object) -> bool:
        names = pointer.split("/")[1:]
        if names[0] in ("apps", "completedApps", "rejectedApps"):
            return names[1] in self._here
        if names[0] == "nodes" and isinstance(recorded, list) and isinstance(ours, list):
            return [one for one in ours if one.split("|")[0] not in self._here] == recorded
        if names[0] not in ("queues", "users"):
            return False
        apps = self.played.answer["checks"][check]["snapshot"]["apps"]
        path, ledger = (names[3], "allocated") if names[0] == "users" else (names[1], names[2])
        more = sum(
            one.get(field, {}).get(names[-1], 0)
            for app, one in apps.items()
            if app in self._here and f"{one['queue']}.".startswith(f"{path}.")
            if names[0] == "queues" or one["user"] == names[1]
            for field in (("pending",) if ledger == "pending" else ("allocated", "placeholderAllocated"))
        )
        return bool(more > 0 and _amount(ours) - _amount(recorded) == more)


class NamesNoQueue(AcceptedHere):
    rule = "root.default takes an application that names no queue and that no rule takes"
    source = "SEMANTICS E7: as the peer does since 1.6"

    def is_cause(self, item: Json, fact: ApplicationAccepted) -> bool:
        return not item["queue"].strip() and fact.queue == "root.default"


class CreatedNames(AcceptedHere):
    rule = "a queue that is created may have any name that a queue of the file may have"
    source = "SEMANTICS E7: names of created queues follow the rule of the queue file"
    _OF_THE_PEER = re.compile(r"[a-z0-9_.-]*")

    def is_cause(self, item: Json, fact: ApplicationAccepted) -> bool:
        return self._OF_THE_PEER.fullmatch(fact.queue) is None


class UnclaimedKeepsItsNode(Rule):
    rule = "an existing allocation of an application that is not known does not reject its node"
    source = "SEMANTICS E15: the node is registered at once, and the allocation is unclaimed"

    def __init__(self, played: Played) -> None:
        super().__init__(played)
        self._nodes: dict[int, set[str]] = {}
        """By check: the nodes that were recorded as rejected, and have unclaimed allocations here."""
        for check, (turns, recorded) in enumerate(zip(played.history, played.recorded["checks"], strict=False)):
            unclaimed = {fact.node_id for _, facts in turns for fact in facts if isinstance(fact, AllocationUnclaimed)}
            rejected = {event["node"] for event in recorded["events"] if event["ev"] == "nodeRejected"}
            if unclaimed & rejected:
                self._nodes[check] = unclaimed & rejected
        self._first = min(self._nodes, default=len(played.history))
        """From this check on the cluster has a node that the peer's has not, with all that follows."""

    def omits(self, check: int, event: Json) -> bool:
        return check >= self._first and (
            event.get("ev") != "nodeRejected" or event["node"] in self._nodes.get(check, ())
        )

    def adds(self, check: int, event: Json) -> bool:
        return check >= self._first

    def counts(self, check: int, pointer: str, recorded: object, ours: object) -> bool:
        return check >= self._first


RULES: tuple[type[Rule], ...] = (
    ToldToGoOnce,
    UnknownTypeIsAnswered,
    FailingTakesNoAsks,
    PlaceholderKeepsItsKey,
    SwapIsOneUpdate,
    NamesNoQueue,
    CreatedNames,
    UnclaimedKeepsItsNode,
)


class Rules(Rightly):
    """All rules for one played scenario, and which of them it needed."""

    def __init__(self, played: Played, known: Iterable[Addition]) -> None:
        self._additions = Additions(played.scenario, known)
        self._rules = [one(played) for one in RULES]
        self._used: dict[str, None] = {}

    @property
    def used(self) -> list[str]:
        """The rules that were needed, each with its source."""
        return [*self._used, *(f"{one.rule} ({one.source})" for one in self._additions.used)]

    def adds(self, check: int, event: Json) -> bool:
        return self._one(lambda rule: rule.adds(check, event)) or self._additions(check, event)

    def omits(self, check: int, event: Json) -> bool:
        return self._one(lambda rule: rule.omits(check, event))

    def says(self, check: int, recorded: Json, event: Json) -> bool:
        return self._one(lambda rule: rule.says(check, recorded, event))

    def counts(self, check: int, pointer: str, recorded: object, ours: object) -> bool:
        return self._one(lambda rule: rule.counts(check, pointer, recorded, ours))

    def _one(self, allows: Callable[[Rule], bool]) -> bool:
        for rule in self._rules:
            if allows(rule):
                self._used[f"{rule.rule} ({rule.source})"] = None
                return True
        return False
