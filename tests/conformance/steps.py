"""Scenario steps as commands: the spelling of the recordings on one side, the core's own types on the other.

A scenario may use what this version cannot do yet. That is said by `Unsupported`, with the name of the feature, so that
the runner reports it instead of playing something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from schedulerd.core.language.commands import (
    AllocationRelease,
    ApplicationRemoval,
    AskRelease,
    Command,
    ConnectCallbacks,
    ExistingAllocation,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    PredicateResult,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.predicates import PredicateWanted, PreemptionPredicateWanted
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import DAY_NS, MILLISECOND_NS, Timeouts

RM_ID = "rm:123"
PARTITION = "default"

NEVER_NS = 10_000 * DAY_NS

Json = dict[str, Any]
Rename: TypeAlias = Callable[[str], str]
Wanted: TypeAlias = PredicateWanted | PreemptionPredicateWanted

TIMEOUT_FIELDS = {
    "completingTimeoutMs": "completing_ns",
    "placeholderTimeoutMs": "placeholder_ns",
    "startingTimeoutMs": "starting_ns",
    "reservationDelayMs": "reservation_delay_ns",
    "preemptAttemptFrequencyMs": "preemption_attempt_ns",
}


class Unsupported(Exception):
    """The scenario needs something that this version does not have."""


class Predicates:
    """What the resource manager of a scenario refuses: `deny` rules of a pattern for keys and one for nodes each.

    Rules of their own hold for what would fit after others have ended.
    """

    def __init__(self, deny: Iterable[Mapping[str, str]], deny_after: Iterable[Mapping[str, str]] = ()) -> None:
        self._deny = [(re.compile(rule["key"]), re.compile(rule["node"])) for rule in deny]
        self._deny_after = [(re.compile(rule["key"]), re.compile(rule["node"])) for rule in deny_after]

    @property
    def connect(self) -> ConnectCallbacks | None:
        """How the callback stream is opened; None if the resource manager has no say in where asks run."""
        if not self._deny and not self._deny_after:
            return None
        return ConnectCallbacks(RM_ID, predicates=bool(self._deny), preemption_predicates=bool(self._deny_after))

    def result(self, wanted: Wanted) -> PredicateResult:
        rules = self._deny if isinstance(wanted, PredicateWanted) else self._deny_after
        key, node = wanted.allocation_key, wanted.node_id
        if any(k.fullmatch(key) and n.fullmatch(node) for k, n in rules):
            return PredicateResult(wanted.call_id, "denied by predicate")
        return PredicateResult(wanted.call_id, index=getattr(wanted, "start_index", 0))


def predicates(scenario: Json) -> Predicates:
    deny = scenario.get("predicates", {}).get("deny", ())
    deny_after = scenario.get("preemptionPredicates", {}).get("deny", ())
    return Predicates(deny, deny_after)


def timeouts(scenario: Json) -> Timeouts:
    """The scenario's timeouts over the defaults.

    Nothing waits for an application that was not announced yet: a scenario is one ordered channel, so what refers to
    something unknown refers to nothing and has to be rejected at once. Queues are cleaned by the step for it only.
    """
    given: dict[str, int] = {"early_message_ns": 0, "cleanup_ns": NEVER_NS}
    for name, milliseconds in scenario.get("timeouts", {}).items():
        if name not in TIMEOUT_FIELDS:
            raise Unsupported(f"timeout {name}")
        given[TIMEOUT_FIELDS[name]] = milliseconds * MILLISECOND_NS
    known = {field.name for field in fields(Timeouts)}
    assert given.keys() <= known, f"core Timeouts has no {sorted(given.keys() - known)}"
    return Timeouts(**given)


def aliases(scenario: Json) -> Rename:
    """How allocation keys are shown: equal placeholders under one name."""
    patterns = [
        (re.compile(item["pattern"]), _as_python_template(item["replace"])) for item in scenario.get("aliases", [])
    ]

    def rename(key: str) -> str:
        for pattern, replacement in patterns:
            key = pattern.sub(replacement, key)
        return key

    return rename


def resources(amounts: Mapping[str, int] | None) -> Resources:
    return Resources(amounts or {})


def update_nodes(items: Iterable[Json]) -> Command:
    return UpdateNodes(RM_ID, [_node(item) for item in items])


def update_applications(items: Iterable[Json]) -> Command:
    return UpdateApplications(RM_ID, new=[_application(item) for item in items])


def remove_applications(application_ids: Iterable[str]) -> Command:
    return UpdateApplications(RM_ID, remove=[ApplicationRemoval(item, PARTITION) for item in application_ids])


def update_asks(items: Iterable[Json]) -> Command:
    return UpdateAllocations(RM_ID, asks=[_ask(item) for item in items])


def release_asks(items: Iterable[Json]) -> Command:
    releases = [
        AskRelease(
            application_id=item["app"],
            partition=item.get("partition", PARTITION),
            allocation_key=item["key"],
            termination=termination(item),
        )
        for item in items
    ]
    return UpdateAllocations(RM_ID, ask_releases=releases)


def allocation_release(item: Json, uuid: str) -> AllocationRelease:
    return AllocationRelease(
        application_id=item["app"],
        partition=item.get("partition", PARTITION),
        uuid=uuid,
        allocation_key=item["key"],
        termination=termination(item),
    )


def termination(item: Json) -> TerminationType:
    return TerminationType[item.get("terminationType", "STOPPED_BY_RM")]


def existing_uuid(item: Json) -> str:
    return "" if item.get("noUuid") else f"existing-{item['app']}-{item['key']}"


def _node(item: Json) -> NodeUpdate:
    action = item.get("action", "CREATE")
    return NodeUpdate(
        node_id=item["id"],
        action=NodeAction.UNKNOWN if action == "UNKNOWN_ACTION_FROM_RM" else NodeAction[action],
        partition=item.get("partition", PARTITION),
        capacity=resources(item["resources"]) if "resources" in item else None,
        occupied=resources(item["occupied"]) if "occupied" in item else None,
        attributes=item.get("attributes", {}),
        existing=[_existing(allocation, item) for allocation in item.get("existing", [])],
    )


def _existing(item: Json, node: Json) -> ExistingAllocation:
    return ExistingAllocation(
        application_id=item["app"],
        allocation_key=item["key"],
        uuid=existing_uuid(item),
        resources=resources(item.get("resources")),
        node_id=node["id"],
        partition=node.get("partition", PARTITION),
        priority=item.get("priority", 0),
        task_group=item.get("taskGroup", ""),
        placeholder=item.get("placeholder", False),
        tags=item.get("tags", {}),
    )


def _application(item: Json) -> NewApplication:
    return NewApplication(
        application_id=item["id"],
        queue=item["queue"],
        partition=item.get("partition", PARTITION),
        user=item.get("user", ""),
        groups=tuple(item.get("groups", ())),
        tags=item.get("tags", {}),
        execution_timeout_ms=item.get("executionTimeoutMs", 0),
        placeholder_ask=resources(item.get("placeholderAsk")),
        gang_style=item.get("gangSchedulingStyle", ""),
    )


def _ask(item: Json) -> NewAsk:
    policy = item.get("preemptionPolicy", {"allowPreemptSelf": True, "allowPreemptOther": False})
    return NewAsk(
        application_id=item["app"],
        allocation_key=item["key"],
        resources=resources(item.get("resources")),
        partition=item.get("partition", PARTITION),
        max_allocations=item.get("maxAllocations", 1),
        priority=item.get("priority", 0),
        tags=item.get("tags", {}),
        task_group=item.get("taskGroup", ""),
        placeholder=item.get("placeholder", False),
        originator=item.get("originator", False),
        allow_preempt_self=policy.get("allowPreemptSelf", False),
        allow_preempt_other=policy.get("allowPreemptOther", False),
    )


def _as_python_template(replacement: str) -> str:
    """`${1}` of the recordings as `\\g<1>` of Python's `re`, everything else taken literally."""
    literal = replacement.replace("\\", "\\\\")
    return re.sub(r"\$\{(\d+)\}", r"\\g<\1>", literal)
