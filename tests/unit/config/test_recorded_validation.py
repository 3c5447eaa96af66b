"""Every queue file of the recorded scenarios is valid here if it was valid for the peer, but for what is listed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulerd.config import QueueFileInvalid, load_queue_file
from tests.loops import each_row

CONFORMANCE = Path(__file__).parents[2] / "conformance"

UNKNOWN_NAME = "CONFORMANCE: an unknown rule or policy is refused, naming what is known"
NO_QUANTITY = "SEMANTICS D: a quantity is a whole number with a unit; the peer reads that of a template too late"
STRICTER = {
    "config_register_rule_unknown/x": ("placementrules[0].name", UNKNOWN_NAME),
    "config_validation/rule_unknown": ("placementrules[0].name", UNKNOWN_NAME),
    "config_validation/unknown_sort_policy": ("properties.application.sort.policy", UNKNOWN_NAME),
    "config_validation/template_bad_resource": ("childtemplate.resources.max.memory", NO_QUANTITY),
}
"""What we refuse and the peer takes: the end of the one path that is wrong, and the rule."""


def recorded() -> Iterator[tuple[str, str, str]]:
    """Name, text and the peer's error of each queue file; a name is the scenario's and that of the check after it."""
    for path in sorted((CONFORMANCE / "scenarios").glob("*.json")):
        scenario: dict[str, Any] = json.loads(path.read_text())
        expected: dict[str, Any] = json.loads((CONFORMANCE / "expected" / path.name).read_text())
        yield f"{path.stem}/{_labels(scenario['steps'])[0]}", scenario["config"], expected["registerError"]
        events = [event for check in expected["checks"] for event in check["events"]]
        errors = iter([event["error"] for event in events if event["ev"] in ("configUpdate", "validateConfig")])
        for index, step in enumerate(scenario["steps"]):
            if "updateConfig" in step or "validateConfig" in step:
                label = _labels(scenario["steps"][index:])[0]
                yield f"{path.stem}/{label}", step.get("updateConfig") or step.get("validateConfig", ""), next(errors)
        assert next(errors, None) is None


def _labels(steps: list[dict[str, Any]]) -> list[str]:
    return [step["check"] for step in steps if "check" in step]


FILES = list(recorded())


def test_there_are_files_of_both_kinds() -> None:
    assert len(FILES) > 300
    assert sum(bool(error) for _, _, error in FILES) > 30
    assert set(STRICTER) <= {name for name, _, _ in FILES}


# The random workloads share a few hundred lines of queue file between them; one test for each text is enough.
DISTINCT = list({text: (name, text, error) for name, text, error in reversed(FILES)}.values())


@each_row(("name", "text", "error"), DISTINCT, ids=[name for name, _, _ in DISTINCT])
def test_agrees_with_the_peer(name: str, text: str, error: str) -> None:
    if name in STRICTER:
        with pytest.raises(QueueFileInvalid) as refused:
            load_queue_file(text)
        assert [problem.path.endswith(STRICTER[name][0]) for problem in refused.value.problems] == [True]
        assert not error
    elif error:
        with pytest.raises(QueueFileInvalid):
            load_queue_file(text)
    else:
        assert load_queue_file(text) is not None
