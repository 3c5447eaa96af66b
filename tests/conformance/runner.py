"""One scenario from file to result: play, compare, excuse what is documented."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from schedulerd.core.specs import OptOut
from tests.conformance.compare import Json, Level, differences
from tests.conformance.documented import additions, excuses, judge
from tests.conformance.player import play, play_through
from tests.conformance.rules import Played, Rules
from tests.conformance.steps import Unsupported

OPT_OUT_RULE = (
    "what is opted out is never ended for others; with `preemption.optout: last`, which is the peer's rule, the answer "
    "is as recorded (SEMANTICS I1)"
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
    if result.outcome is Outcome.FAIL and _opts_out(scenario):
        result = _as_the_peer_opts_out(scenario, recorded, level) or result
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


def _as_the_peer_opts_out(scenario: Json, recorded: Path, level: Level) -> PredicateResult | None:
    """To the peer an opt-out is a wish (SEMANTICS I1): its answer is right if it is ours under that rule. The answer
    that is written down is the one of our own rule."""
    likewise = _played(scenario, recorded, level, OptOut.LAST)
    if likewise.outcome is Outcome.FAIL:
        return None
    rules = [] if likewise.outcome is Outcome.OK else likewise.sentences
    return PredicateResult(recorded.stem, Outcome.DOCUMENTED, [OPT_OUT_RULE, *rules], play(scenario))
