"""What is written down: which scenarios are promised (`scope.toml`), which rightly differ (`differences.toml`).

Both files are checked as strictly as the scenarios: one that nobody mentions, or a difference that does not show any
longer, is an error, so that they cannot grow stale.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from tests.conformance.compare import Difference, Json, Level
from tests.conformance.steps import Rename, aliases

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Family:
    """Scenarios of one kind: promised, or the reason why not yet."""

    scenarios: tuple[str, ...]
    promised: bool
    reason: str
    level: Level
    """At which they are promised."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a scenario may differ: in one check, at or below these pointers of its snapshot, and in these events."""

    check: str
    """A label, or `*` for each check."""
    pointers: tuple[str, ...] = ()
    """`*` in a pointer stands for one name."""
    events: tuple[Json, ...] = ()
    """An event matches if it has all fields of one of these."""

    def covers(self, difference: Difference) -> bool:
        if self.check not in ("*", difference.check):
            return False
        if difference.event is None:
            return any(_is_within(difference.pointer, pointer) for pointer in self.pointers)
        return any(pattern.items() <= difference.event.items() for pattern in self.events)


def _is_within(pointer: str, pattern: str) -> bool:
    names, wanted = pointer.split("/"), pattern.split("/")
    return len(names) >= len(wanted) and all(
        want in ("*", name) for name, want in zip(names[: len(wanted)], wanted, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Excuse:
    """Why some scenarios rightly answer something else, and where."""

    scenarios: tuple[str, ...]
    rule: str
    source: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """A kind of step after which an answer is due that the peer does not give."""

    step: str
    same: Mapping[str, str]
    """Fields of the event, and those of the step's item that have to have the same value; an empty one is any."""
    having: Json
    """What the item has to say beside that."""

    def is_of(self, event: Json, item: Json, rename: Rename) -> bool:
        for theirs, its in self.same.items():
            wanted = rename(item[its]) if its == "key" else item[its]
            if wanted not in ("", event.get(theirs)):
                return False
        return self.having.items() <= item.items()


@dataclass(frozen=True, slots=True, eq=False)
class Addition:
    """An answer that is given in every scenario after its cause, and was not recorded. It excuses nothing else: not an
    event without its cause since the check before, and none that is missing."""

    rule: str
    source: str
    event: Json
    """An event is one of these if it has all of these fields."""
    causes: tuple[Cause, ...]

    def covers(self, event: Json, steps: Iterable[Json], rename: Rename) -> bool:
        """Whether one of these steps causes the event."""
        if not self.event.items() <= event.items():
            return False
        return any(
            cause.is_of(event, item if isinstance(item, dict) else {"id": item}, rename)
            for step in steps
            for cause in self.causes
            for item in step.get(cause.step, ())
        )


class Additions:
    """The answers that are rightly given in one scenario beside the recorded ones."""

    def __init__(self, scenario: Json, known: Iterable[Addition]) -> None:
        self._rename = aliases(scenario)
        self._known = tuple(known)
        self._steps: list[list[Json]] = [[]]
        """Before each check, since the one before it."""
        for step in scenario["steps"]:
            self._steps[-1].append(step)
            if "check" in step:
                self._steps.append([])
        self.used: dict[Addition, None] = {}

    def __call__(self, check: int, event: Json) -> bool:
        """Whether the event is rightly added in the check of this index."""
        for addition in self._known:
            if addition.covers(event, self._steps[check], self._rename):
                self.used[addition] = None
                return True
        return False


@dataclass(frozen=True, slots=True)
class Judgement:
    """The differences of one scenario after the excuses."""

    left: list[Difference]
    """Failures: no excuse covers them."""
    rules: list[str]
    """Of the excuses that cover the others, each with its source."""
    stale: list[str]
    """Places that an excuse names and nothing differs in."""


@cache
def families(path: Path = HERE / "scope.toml") -> list[Family]:
    """In order: the first one that names a scenario counts."""
    entries = tomllib.loads(path.read_text())["family"]
    return [
        Family(tuple(item["scenarios"]), item["promised"], item["reason"], Level(item.get("level", Level.VISIBLE)))
        for item in entries
    ]


def family_of(name: str, known: Iterable[Family]) -> Family | None:
    return next((item for item in known if _names(item.scenarios, name)), None)


@cache
def excuses(path: Path = HERE / "differences.toml") -> list[Excuse]:
    entries = tomllib.loads(path.read_text())["difference"]
    return [
        Excuse(
            scenarios=tuple(item["scenarios"]),
            rule=item["rule"],
            source=item["source"],
            places=tuple(
                Place(place["check"], tuple(place.get("pointers", ())), tuple(place.get("events", ())))
                for place in item["where"]
            ),
        )
        for item in entries
    ]


@cache
def additions(path: Path = HERE / "differences.toml") -> list[Addition]:
    return [
        Addition(
            rule=item["rule"],
            source=item["source"],
            event=item["event"],
            causes=tuple(
                Cause(cause["step"], cause["same"], {k: v for k, v in cause.items() if k not in ("step", "same")})
                for cause in item["causes"]
            ),
        )
        for item in tomllib.loads(path.read_text())["addition"]
    ]


def judge(name: str, found: list[Difference], known: Iterable[Excuse]) -> Judgement:
    """Sorts a scenario's differences into excused ones and those that are failures."""
    applying = [excuse for excuse in known if _names(excuse.scenarios, name)]
    places = [place for excuse in applying for place in excuse.places]
    left = [difference for difference in found if not any(place.covers(difference) for place in places)]
    stale = [place.check for place in places if not any(place.covers(difference) for difference in found)]
    return Judgement(left, [f"{excuse.rule} ({excuse.source})" for excuse in applying], stale)


def _names(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
