"""Words that the project has given up: `docs/glossary.md` has those that it uses.

A retired identifier is looked for in the syntax tree, as a name, attribute, argument, definition or field. Parts of
names are looked for in settings, metrics and the names of tests. Prose is for readers, and is not checked here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedulerd.config.settings import Settings
from schedulerd.observe.families import FAMILIES
from tests.loops import each_row

ROOT = Path(__file__).parents[2]
CORE = ("schedulerd/core",)
CODE = ("schedulerd", "tests", "benchmarks")

RETIRED: dict[str, tuple[tuple[str, ...], str]] = {
    "Shape": (CORE, "RequestClass, and QuotaKey for the account"),
    "Shapes": (CORE, "RequestClasses"),
    "shape": (CORE, "request_class, or pending_class with its account"),
    "shapes": (CORE, "request_classes"),
    "Line": (CORE, "ClassOrder"),
    "Lines": (CORE, "PendingIndex"),
    "Contender": (CODE, "SchedulingEntity"),
    "contender": (CODE, "entity"),
    "Host": (CORE, "ParentEntity"),
    "host": (CORE, "ancestor, or parent_entity"),
    "hosts": (CORE, "ancestors"),
    "lineage": (CODE, "path_to_root"),
    "Closing": (CODE, "Block"),
    "ClosedFor": (CODE, "BlockReason"),
    "closing": (CORE, "block"),
    "passes_on": (CODE, "propagates_demand"),
    "lets_stand": (CODE, "admits_group"),
    "may_stand": (CODE, "is_schedulable"),
    "stands": (
        ("schedulerd/core/state/pending/ask_group.py", "schedulerd/core/state/pending"),
        "has_ready, or has_demand",
    ),
    "waits_its_turn": (CODE, "awaits_start"),
    "give_turn": (CODE, "admit_next"),
    "whose_turn": (CODE, "next_to_start"),
    "Party": (CODE, "LimitSubject"),
    "party": (CODE, "limit_subject"),
    "Patience": (CODE, "RetryTimers"),
    "patience": (CORE, "timers"),
    "claimants": (CODE, "preemptors"),
    "nodeless": (CODE, "unreservable"),
    "unserved": (CODE, "overflow"),
    "dormant": (CODE, "waiting_for_change"),
    "Trial": (CODE, "PredicateCheck"),
    "trial": (CODE, "predicate_check"),
    "trials": (CODE, "predicate_checks"),
    "on_trial": (CODE, "predicate_reserved"),
    "Hearing": (CODE, "PredicateHistory"),
    "hearing": (CORE, "predicate_history"),
    "Verdict": (CODE, "PredicateResult"),
    "verdict": (CODE, "result"),
    "verdicts": (CODE, "results"),
    "GiveVerdicts": (CODE, "GivePredicateResults"),
    "VerdictWanted": (CODE, "PredicateWanted"),
    "TurnedDown": (CODE, "RefusedAsks"),
    "turned_down": (CODE, "refused, or refused_asks"),
    "waking": (CODE, "requeue"),
    "Claim": (CORE, "PreemptionContext"),
    "claimed": (CORE, "quota_reserved"),
    "promised_quota": (CODE, "gang_quota_promised"),
    "Side": (CODE, "VictimQueue"),
    "_roof": (CODE, "_limiting_queue"),
    "Prospects": (CODE, "NodeCandidates"),
    "Harm": (CODE, "Cost"),
    "harm": (CORE, "cost"),
    "Effort": (CODE, "WorkBudget"),
    "effort": (CORE, "budget"),
    "firm": (CODE, "entitled"),
    "is_firm": (CODE, "is_entitled"),
    "firmly_kept": (CODE, "entitled_reserved"),
    "favoured": (CODE, "priority_gang"),
    "favour": (CODE, "set_priority_gang"),
    "held_back_by": (CODE, "gang_ahead"),
    "gives_way": (CODE, "ask_again_when_gone"),
    "hearsay": (CODE, "recovery_mismatches"),
    "departures": (CODE, "releases"),
    "Turn": (CORE, "StepContext"),
    "turn": (CORE, "context"),
    "Look": (CORE, "StateQuery"),
    "told_states": (CODE, "scheduling_state_tracker"),
    "ToldStates": (CODE, "SchedulingStateTracker"),
    "Sweep": (CODE, "Scan"),
    "Draft": (("schedulerd/wire",), "ResponseBuilder"),
    "CallDraft": (CODE, "CallBuilder"),
    "Told": (("schedulerd/wire",), "Item"),
    "speak": (("schedulerd/wire",), "set_dialect"),
    "Link": (("schedulerd/daemon",), "RmSession"),
    "Links": (("schedulerd/daemon",), "RmSessions"),
    "Ending": (("schedulerd/daemon",), "CloseReason"),
    "StreamSession": (CODE, "UpdateStream"),
    "Dialogue": (CODE, "UpdateMethod"),
    "Chapter": (CODE, "RunSegment"),
    "parked": (("schedulerd",), "unschedulable, or awaiting_placeholder"),
    "gang_patience_s": (CODE, "gang_deadlock_timeout_s"),
    "refusal_rest_s": (CODE, "predicate_retry_delay_s"),
    "cycle_placements_max": (CODE, "cycle_allocations_max"),
    "Pond": (("tests",), "SmallWorld"),
    "ChoosyWorld": (("tests",), "ConstrainedWorld"),
    "Sightings": (("tests",), "Observations"),
    "put_on_trial": (CODE, "begin_predicate_check"),
    "end_trial": (CODE, "end_predicate_check"),
    "put_last": (CODE, "move_last"),
    "note_less_kept": (CODE, "note_less_reserved"),
    "note_less_held": (CODE, "note_check_room_free"),
    "_kept_changed": (CODE, "_reserved_changed"),
    "refusal_in_exchange": (CODE, "refusal_for_swap"),
    "considered_ns": (CODE, "deadlock_checked_ns"),
    "free_slot_ns": (CODE, "next_deadlock_check_ns"),
    "has_slot": (CODE, "is_check_postponed"),
    "CONSIDERED_EACH_NS": (CODE, "DEADLOCK_CHECK_SPACING_NS"),
    "may_reserve": (CODE, "wants_reservation"),
    "_take_due": (CODE, "_collect_due"),
    "bars_with_room": (CODE, "is_refused_with_room"),
    "bars": (CORE, "is_refused"),
    "takes_one": (CODE, "uses_allocation"),
    "rests_until_ns": (CODE, "no_reservation_before_ns"),
    "look_soon": (CODE, "make_due_now"),
    "look_again_soon": (CODE, "note_node_change"),
    "look_again_at_changed": (CODE, "retry_on_changed_nodes"),
    "look_again": (CORE, "retry_on_node"),
    "is_unhelped": (CODE, "is_not_helped"),
    "expect_reservation": (CODE, "schedule_reservation"),
    "_LONG_AGO_NS": (CODE, "_DUE_NOW_NS"),
    "_wake": (CORE, "_retry_unschedulable"),
    "_wake_regrouped": (CODE, "_retry_affinities"),
    "closed_above": (CODE, "blocked_above"),
    "who_gives_way": (CODE, "gangs_to_release"),
    "yields_to_gang": (CODE, "ask_again_when_gone"),
    "forget_give_way": (CODE, "cancel_yield"),
    "awaits_full": (CODE, "completion_untold"),
    "full_ns": (CODE, "completed_ns"),
    "say_if_full": (CODE, "tell_if_complete"),
    "harmless_part": (CODE, "cheapest_part"),
    "may_end": (CORE, "may_be_preempted"),
    "may_end_too": (CODE, "may_preempt_further"),
    "LINED_UP_MAX": (CODE, "RETRY_LIST_MAX"),
    "_line_up": (CODE, "_enqueue_class"),
    "serve_next": (CODE, "allocate_reserved"),
    "_own_claim": (CODE, "_own_reserved"),
    "_lasting_refusal": (CODE, "_lasting_block"),
    "forgive": (CODE, "clear_refusals"),
    "give_back": (CORE, "return_ask"),
    "on_rested": (CODE, "on_retry_due"),
    "take_back_promise": (CODE, "withdraw_promise"),
    "shut_node": (CODE, "close_node"),
    "ask_anew": (CODE, "make_pending_again"),
    "distrust": (CORE, "invalidate"),
    "looks_again": (CODE, "needs_another_round"),
    "turned_away": (CODE, "unschedulable_within_quotas"),
    "held_back_for": (CODE, "waits_for_gang_of"),
    "ANYWHERE_MAX": (CODE, "QUOTA_CANDIDATES_MAX"),
    "no_better": (CODE, "no_preferred_node"),
    "know_nodes": (CODE, "tracks_nodes"),
    "scored_anew": (CODE, "all_scores_changed"),
    "empty_holds": (CODE, "empty_group_open"),
    "_give_grace": (CODE, "_delay_completion"),
    "asked_again": (CODE, "pending_again"),
    "_not_now": (CORE, "_state_mistake"),
    "take_apart": (CODE, "dismantle"),
    "emptied": (CODE, "clear_stepwise"),
    "LOOKS_MAX": (CODE, "VISITS_MAX"),
    "keep_agreed": (CODE, "reserve_agreed"),
    "keep_refused": (CODE, "reserve_refused"),
    "_may_keep": (CODE, "_may_reserve"),
    "_may_ask_to_keep": (CODE, "_may_ask_to_reserve"),
    "review_predicate_wait": (CODE, "update_predicate_wait"),
    "hurry": (CODE, "set_earlier"),
    "_void": (CORE, "_reason_to_end"),
    "untried": (CODE, "unchecked"),
    "band": (CORE, "group_key"),
    "Agreement": (CORE, "VictimsAnswer"),
    "refusal_ns": (CODE, "predicate_retry_delay_ns"),
    "since": (("schedulerd/core/state/model/predicate_check.py",), "refused_everywhere_at_change"),
    "down": (CORE, "refused"),
    "kind": (("schedulerd/core/reservations", "schedulerd/core/state/pending/ask_group.py"), "pending_class"),
    "ready": (
        (
            "schedulerd/core/cycle.py",
            "schedulerd/core/state/ledger/commit",
            "schedulerd/core/state/pending",
            "schedulerd/core/predicates",
        ),
        "reservations_to_check",
    ),
    "_claim": (("schedulerd/core",), "_preemption_context"),
    "_may_claim": (CODE, "_may_preempt"),
    "has_claim": (CODE, "has_entitled"),
    "roof": (CORE, "limiting_level"),
    "_sides": (CORE, "_victim_queues"),
    "_new_side": (CODE, "_new_victim_queue"),
    "side": (CORE, "victim_queue"),
    "_effort": (CODE, "_budget, or _work_budget"),
    "line": (("schedulerd/core/state/pending",), "class_order"),
    "_line_for": (CODE, "_class_order_for"),
    "prospect": (CODE, "node_candidate"),
    "SET_ASIDE": (CORE, "BLOCKED"),
    "SET_ASIDE_MAX": (CORE, "BLOCKED_MAX"),
    "_aside": (CORE, "_not_ready"),
    "_let_rest": (CODE, "_postpone_attempt"),
    "_rest": (
        ("schedulerd/core/reservations", "schedulerd/core/predicates"),
        "_postpone_reservation, or _set_aside_resting",
    ),
    "recheck": (CORE, "_recheck_gangs"),
    "leave": (("schedulerd/core/state/ledger/commit",), "begin_release"),
    "left": (("schedulerd/core/state/ledger/commit",), "end_release"),
    "no_victim": (("schedulerd/core/state/ledger/commit",), "drop_victim"),
    "as_if_asked_ns": (CODE, "due_ns"),
    "claimable": (CORE, "entitled_to"),
    "wake": (CORE, "retry_waiting"),
    "hear": (CORE, "on_facts"),
    "give_way": (("schedulerd/daemon", "tests/unit/daemon"), "supersede"),
    "a_claim": (("tests",), "an_entitled_ask"),
    "opinion": (("tests/unit/core",), "refusal_of"),
    "hang_up": (("tests/unit/core",), "disconnect_callbacks"),
}
"""By retired identifier: the files below which it may not stand, and what to use in its place."""

RETIRED_PARTS = ("parked", "verdict", "patience", "firm", "shape", "trial")
"""No name of a setting or metric has one of these parts."""

TESTS = ("tests",)
CORE_TESTS = ("tests/unit/core",)
ROOM_TESTS = (
    "tests/unit/core/state/constraints",
    "tests/unit/core/predicates",
    "tests/unit/core/preemption",
    "tests/unit/core/reservations",
)

RETIRED_IN_TESTS: dict[str, tuple[tuple[str, ...], str]] = {
    "who whom whoever": (TESTS, "the thing: the ask, the client, the RM"),
    "nobody somebody everybody anybody": (TESTS, "the thing: no ask, nothing, each client"),
    "parked": (TESTS, "unschedulable, or awaits a placeholder"),
    "verdict verdicts": (TESTS, "result"),
    "trial trials": (TESTS, "check"),
    "turned_down": (TESTS, "refused"),
    "patience": (TESTS, "deadlock_timeout"),
    "favoured firm firmly": (TESTS, "priority, entitled"),
    "hearsay": (TESTS, "mismatch"),
    "claim claimed claimant claimants": (CORE_TESTS, "entitled, reserved"),
    "closing closings": (CORE_TESTS, "block"),
    "shape shapes": (CORE_TESTS, "class"),
    "lined_up lining": (CORE_TESTS, "due, or positioned"),
    "wake wakes woken": (CORE_TESTS, "requeue, or resume"),
    "harm least_harm": (CORE_TESTS, "cost"),
    "gives_way give_way held_back": (CORE_TESTS, "released, or waits"),
    "kept": (ROOM_TESTS[1:], "reserved"),
    "is_kept kept_room": (ROOM_TESTS, "reserved"),
    "rests rested": (ROOM_TESTS, "resting, or a pause"),
    "nobody_ends others_end others_to_end to_end_others have_to_end": (ROOM_TESTS, "preempted"),
    "is_ended are_ended be_ended to_end": (ROOM_TESTS, "preempted"),
}
"""By retired words (one or several parts of a name): below which folders no test has them in its name, and what to say.

Words that are ordinary English elsewhere have a narrow scope. The names of the shim's tests are not looked at:
a claim is a Kubernetes object.
"""


def _identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.keyword(arg=str(name)):
                yield name, node.value.lineno
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                for alias in aliases:
                    for part in (*alias.name.split("."), alias.asname or ""):
                        yield part, node.lineno
                if isinstance(node, ast.ImportFrom):
                    yield from ((part, node.lineno) for part in (node.module or "").split("."))


def _retired_in(path: str, source: str) -> list[str]:
    return [
        f"{path}:{line}: {name} is retired: use {RETIRED[name][1]}"
        for name, line in _identifiers(ast.parse(source))
        if name in RETIRED and path.startswith(RETIRED[name][0])
    ]


def _retired_in_tests(path: str, source: str) -> list[str]:
    """Names of tests and of their helpers with retired words, as sentences."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for words, (scope, instead) in RETIRED_IN_TESTS.items():
                for word in words.split():
                    if path.startswith(scope) and f"_{word}_" in f"_{node.name}_":
                        found.append(f"{path}:{node.lineno}: {word} in {node.name}: say {instead}")
    return found


FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for top in CODE
    for path in (ROOT / top).rglob("*.py")
    if "_generated" not in path.parts
)


@pytest.mark.slow
def test_no_file_uses_a_retired_identifier() -> None:
    found = [one for path in FILES for one in _retired_in(path, (ROOT / path).read_text())]
    assert not found, "\n".join(found[:50])


@pytest.mark.parametrize(
    "source", ["class Shape: pass", "x.shape = 1", "def f(shape): pass", "f(shape=1)", "from a.shape import b"]
)
def test_a_retired_identifier_is_found_wherever_it_stands(source: str) -> None:
    assert _retired_in("schedulerd/core/somewhere.py", source)
    assert not _retired_in("schedulerd/simulate/somewhere.py", source)


@each_row("name", [*Settings.model_fields, *(family.name for family in FAMILIES)])
def test_settings_and_metrics_have_no_retired_words(name: str) -> None:
    assert not set(re.split("_", name)) & set(RETIRED_PARTS)


@pytest.mark.slow
def test_no_function_of_the_tests_has_a_retired_word_in_its_name() -> None:
    files = [path for path in FILES if path.startswith("tests") and "kubernetes" not in path]
    found = [one for path in files for one in _retired_in_tests(path, (ROOT / path).read_text())]
    assert not found, "\n".join(found[:50])


def test_a_retired_word_is_found_as_a_part_of_a_name_only() -> None:
    core = "tests/unit/core/pending/test_some.py"
    for name in ("test_closing_hides_it", "test_a_closing", "test_it_is_turned_down_twice"):
        assert len(_retired_in_tests(core, f"def {name}(): pass")) == 1
    for name in ("test_the_whole", "test_it_is_turned", "test_disclosing"):
        assert not _retired_in_tests(core, f"async def {name}(): pass")
    assert not _retired_in_tests("tests/unit/daemon/test_some.py", "def test_closing_a_stream(): pass")


def test_no_module_has_a_retired_name() -> None:
    assert not {Path(path).stem for path in FILES if path.startswith("schedulerd/core")} & {
        name for name, (scope, _) in RETIRED.items() if scope in (CORE, CODE)
    }
