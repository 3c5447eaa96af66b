"""One scenario from file to verdict: play, compare, excuse what is documented."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.conformance.compare import Json, Level, differences
from tests.conformance.documented import excuses, judge
from tests.conformance.player import play
from tests.conformance.steps import Unsupported


class Outcome(Enum):
    OK = "ok"
    DOCUMENTED = "differs as documented"
    FAIL = "FAIL"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    outcome: Outcome
    sentences: list[str]
    """Of a failure each difference, of a documented difference its rules."""
    answer: Json | None
    """What we answered, in the format of `expected/`; None if the scenario could not be played."""


def run(folder: Path, name: str, level: Level) -> Verdict:
    """Plays `folder/scenarios/NAME.json` and compares with `folder/expected/NAME.json`."""
    scenario = json.loads((folder / "scenarios" / f"{name}.json").read_text())
    if any("allocations" in step for step in scenario["steps"]):
        return Verdict(name, Outcome.SKIPPED, ["SI 2023-06 has no message for `allocations` steps"], None)
    try:
        answer = play(scenario)
    except Unsupported as missing:
        return Verdict(name, Outcome.FAIL, [f"not supported: {missing}"], None)
    recorded = folder / "expected" / f"{name}.json"
    if not recorded.exists():
        return Verdict(name, Outcome.FAIL, [f"there is no {recorded} to compare with"], answer)
    expected = json.loads(recorded.read_text())
    judgement = judge(name, differences(expected, answer, level), excuses())
    sentences = [str(difference) for difference in judgement.left]
    sentences += [
        f"check '{label}': differences.toml excuses it, but nothing differs there" for label in judgement.stale
    ]
    if sentences:
        return Verdict(name, Outcome.FAIL, sentences, answer)
    if judgement.rules:
        return Verdict(name, Outcome.DOCUMENTED, judgement.rules, answer)
    return Verdict(name, Outcome.OK, [], answer)
