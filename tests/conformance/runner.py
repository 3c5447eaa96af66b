"""One scenario from file to result: play, compare, excuse what is documented."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from schedulerd.core.language.specs import OptOut
from tests.conformance.compare import Json, Level, differences
from tests.conformance.documented import additions, excuses, judge
from tests.conformance.peer_order import recorded_order
from tests.conformance.player import play_through
from tests.conformance.rules import Played, Rules
from tests.conformance.steps import Unsupported

OPT_OUT_RULE = (
    "what is opted out is never ended for others; with `preemption.optout: last`, which is the peer's rule, the answer "
    "is as recorded (SEMANTICS I1)"
)
FAIR_RULE = (
    "fair compares parts of what a queue is due, and applications by dominant share; with the order of the recordings, "
    "which compares amounts with fractions, the answer is as recorded (SEMANTICS E14)"
)


class Outcome(Enum):
    OK = "ok"
    DOCUMENTED = "differs as documented"
    FAIL = "FAIL"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class PredicateResult:
    name: str
    outcome: Outcome
    sentences: list[str]
    """Of a failure each difference, of a documented difference its rules."""
    answer: Json | None
    """What we answered, in the format of `expected/`; None if the scenario could not be played."""


def run(folder: Path, name: str, level: Level) -> PredicateResult:
    """Plays `folder/scenarios/NAME.json` and compares with `folder/expected/NAME.json`."""
    scenario = json.loads((folder / "scenarios" / f"{name}.json").read_text())
    if any("allocations" in step for step in scenario["steps"]):
        return PredicateResult(name, Outcome.SKIPPED, ["SI 2023-06 has no message for `allocations` steps"], None)
    recorded = folder / "expected" / f"{name}.json"
    result = _played(scenario, recorded, level)
    if result.outcome is Outcome.FAIL:
        result = _by_rules_of_the_peer(scenario, recorded, level, result.answer) or result
    return result


def _played(scenario: Json, recorded: Path, level: Level, opt_out: OptOut | None = None) -> PredicateResult:
    """`opt_out` goes above what the scenario's queue file says of it."""
    name = recorded.stem
    try:
        answer, history = play_through(scenario, opt_out)
    except Unsupported as missing:
        return PredicateResult(name, Outcome.FAIL, [f"not supported: {missing}"], None)
    if not recorded.exists():
        return PredicateResult(name, Outcome.FAIL, [f"there is no {recorded} to compare with"], answer)
    expected = json.loads(recorded.read_text())
    known = Rules(Played(scenario, expected, answer, history), additions())
    judgement = judge(name, differences(expected, answer, level, known), excuses())
    rules = [*judgement.rules, *known.used]
    sentences = [str(difference) for difference in judgement.left]
    sentences += [
        f"check '{label}': differences.toml excuses it, but nothing differs there" for label in judgement.stale
    ]
    if sentences:
        return PredicateResult(name, Outcome.FAIL, sentences, answer)
    if rules:
        return PredicateResult(name, Outcome.DOCUMENTED, rules, answer)
    return PredicateResult(name, Outcome.OK, [], answer)


def _opts_out(scenario: Json) -> bool:
    """Whether an ask of it says that its allocations may not be ended for others."""
    asks = (ask for step in scenario["steps"] for ask in step.get("asks", ()))
    return any(not ask.get("preemptionPolicy", {}).get("allowPreemptSelf", True) for ask in asks)


def _by_rules_of_the_peer(scenario: Json, recorded: Path, level: Level, answer: Json | None) -> PredicateResult | None:
    """The answer is right if it is as recorded under rules of the peer that we rightly do not follow: the fewest of
    them. The answer that is written down is the one of our own rules."""
    opt_outs: list[tuple[OptOut | None, list[str]]] = [(None, [])]
    if _opts_out(scenario):
        opt_outs.append((OptOut.LAST, [OPT_OUT_RULE]))
    orders: list[tuple[AbstractContextManager[None], list[str]]] = [
        (nullcontext(), []),
        (recorded_order(), [FAIR_RULE]),
    ]
    for order, order_rules in orders:
        with order:
            for opt_out, rules in opt_outs:
                likewise = _played(scenario, recorded, level, opt_out)
                if likewise.outcome is not Outcome.FAIL:
                    others = [] if likewise.outcome is Outcome.OK else likewise.sentences
                    found = [*rules, *order_rules, *others]
                    return PredicateResult(recorded.stem, Outcome.DOCUMENTED, found, answer)
    return None
