"""Each promised scenario is one test, and so is each scenario of our own."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.conformance.compare import Level
from tests.conformance.documented import HERE, excuses, families, family_of
from tests.conformance.rules import (
    CreatedNames,
    FailingTakesNoAsks,
    NamesNoQueue,
    Rule,
    SwapIsOneUpdate,
    ToldToGoOnce,
    UnknownTypeIsAnswered,
)
from tests.conformance.runner import FAIR_RULE, Outcome, run
from tests.loops import each_row

OWN = HERE / "own"
QUEUES = ("quota_*", "limit_*", "place_*", "acl_*", "maxapps_*", "template_*", "dynamic_*", "config_*")
"""The scenarios about queues, of which at least `ORDERED_SHARE` have to keep the order of events as well."""
ORDERED_SHARE = 0.9


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in (folder / "scenarios").glob("*.json"))


RIGHT = [name for name in names(OWN) if name.endswith("_right")]


def promises() -> dict[str, Level]:
    """The promised scenarios with the level at which they are."""
    known = families()
    found = {name: family_of(name, known) for name in names(HERE)}
    return {name: family.level for name, family in found.items() if family is not None and family.promised}


@each_row(("name", "level"), promises().items())
def test_promised_scenario(name: str, level: Level) -> None:
    result = run(HERE, name, level)
    assert result.outcome in (Outcome.OK, Outcome.DOCUMENTED), result.sentences


@each_row("name", names(OWN))
def test_scenario_of_our_own(name: str) -> None:
    result = run(OWN, name, Level.ORDER)
    assert result.outcome is Outcome.OK, result.sentences


def test_every_scenario_is_in_scope_or_has_a_reason_not_to_be() -> None:
    known = families()
    assert [name for name in names(HERE) if family_of(name, known) is None] == []
    assert all(family.reason for family in known)


def test_every_pattern_of_scope_names_a_scenario() -> None:
    for family in families():
        for pattern in family.scenarios:
            assert any(Path(name).match(pattern) for name in names(HERE)), pattern


def test_the_order_of_events_is_promised_for_nearly_all_scenarios_about_queues() -> None:
    about_queues = [name for name in names(HERE) if any(fnmatchcase(name, pattern) for pattern in QUEUES)]
    known = promises()
    unordered = [name for name in about_queues if known.get(name) not in (Level.ORDER, Level.FULL)]
    assert len(about_queues) == 53
    assert len(unordered) <= (1 - ORDERED_SHARE) * len(about_queues), unordered


def test_every_excuse_is_for_a_promised_scenario_and_gives_rule_source_and_place() -> None:
    for excuse in excuses():
        assert set(excuse.scenarios) <= promises().keys()
        assert excuse.rule
        assert excuse.source
        assert excuse.places


def test_every_excused_scenario_has_one_of_our_own_with_the_right_answer() -> None:
    excused = {name for excuse in excuses() for name in excuse.scenarios}
    assert excused <= {name.removesuffix("_right") for name in RIGHT}


@each_row("name", RIGHT)
def test_a_recording_with_a_right_answer_of_our_own_differs_as_documented(name: str) -> None:
    assert run(HERE, name.removesuffix("_right"), Level.VISIBLE).outcome is Outcome.DOCUMENTED


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("gang_node_removed_inflight_same", ToldToGoOnce),
        ("app_release_types", UnknownTypeIsAnswered),
        ("ask_on_failed_states", FailingTakesNoAsks),
        ("gang_single", SwapIsOneUpdate),
        ("place_provided_create", NamesNoQueue),
        ("place_tag_parent_fixed", NamesNoQueue),
        ("place_user_create", CreatedNames),
    ],
)
def test_a_rule_is_shown_by_a_recording_that_no_excuse_names_for_it(name: str, rule: type[Rule]) -> None:
    assert f"{rule.rule} ({rule.source})" in run(HERE, name, Level.ORDER).sentences
    assert rule.rule not in {excuse.rule for excuse in excuses()}


@pytest.mark.slow
def test_only_recordings_in_which_fair_decides_need_the_order_that_was_recorded() -> None:
    """Twelve of the random workloads, which no excuse names; a queue with a guarantee is compared with one without."""
    decided = [name for name in promises() if FAIR_RULE in run(HERE, name, Level.VISIBLE).sentences]
    assert len(decided) == 12
    assert all(name.startswith("rnd_") for name in decided)
