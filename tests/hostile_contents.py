"""Messages that are well-formed and mean harm: hostile values in every place where somebody reads a text or a number.

Each call is made from a seed. A kind is one sort of harm, so that a run can leave it out.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from schedulerd._generated.schedulerd.v1 import admin_pb2, callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from tests.hostile_values import (
    AMOUNTS,
    APPLICATION,
    COUNTS,
    DURATIONS,
    JSON,
    NAMES,
    NODE,
    NUMBERS,
    PATTERNS,
    RM,
    RM_2021,
    SELECTORS,
    YAML,
)

QUEUES = json.dumps(
    {
        "partitions": [
            {
                "name": "default",
                "placementrules": [
                    {
                        "name": "tag",
                        "value": "namespace",
                        "create": True,
                        "parent": {"name": "fixed", "value": "root.n"},
                    },
                    {"name": "provided", "create": True},
                ],
                "queues": [
                    {
                        "name": "root",
                        "submitacl": "*",
                        "queues": [{"name": "a"}, {"name": "b"}, {"name": "n", "parent": True}],
                    }
                ],
            }
        ]
    }
)
"""What the hostile RMs begin with: a namespace gets a queue, whose quotas are read from tags."""


@dataclass(frozen=True, slots=True)
class Call:
    """Messages for one call of a method; on a stream the first one says whose it is."""

    kind: str
    service: str
    method: str
    messages: Sequence[Message]


def kinds() -> list[str]:
    return sorted(_MAKERS)


def hostile_call(choose: random.Random, kind: str) -> Call:
    """A call of this kind, with values that `choose` decides."""
    return _MAKERS[kind](choose, kind)


def _scheduler(kind: str, method: str, *messages: Message) -> Call:
    return Call(kind, "si.v1.Scheduler", method, messages)


def _applications(choose: random.Random, kind: str, fill: Callable[[Any], None]) -> Call:
    """New applications in one of the dialects, each filled by `fill`."""
    is_2021 = choose.random() < 0.5
    request: Any = si_2021_pb2.UpdateRequest(rmID=RM_2021) if is_2021 else si_pb2.ApplicationRequest(rmID=RM)
    for _ in range(choose.randint(1, 20)):
        new = (request.newApplications if is_2021 else request.new).add(applicationID=f"app-{choose.randrange(10**6)}")
        new.queueName = choose.choice(("root.a", "root.b", "", "root.namespaces.x"))
        new.ugi.user = "user"
        new.tags["namespace"] = f"ns{choose.randrange(50)}"
        fill(new)
    return _scheduler(kind, "Update" if is_2021 else "UpdateApplication", request)


def _asks(choose: random.Random, kind: str, fill: Callable[[Any], None]) -> Call:
    is_2021 = choose.random() < 0.5
    request: Any = si_2021_pb2.UpdateRequest(rmID=RM_2021) if is_2021 else si_pb2.AllocationRequest(rmID=RM)
    for _ in range(choose.randint(1, 20)):
        ask = request.asks.add(allocationKey=f"k{choose.randrange(10**6)}", applicationID=APPLICATION, maxAllocations=1)
        ask.resourceAsk.resources["vcore"].value = 1
        fill(ask)
    return _scheduler(kind, "Update" if is_2021 else "UpdateAllocation", request)


def _tag_numbers(choose: random.Random, kind: str) -> Call:
    def fill(new: Any) -> None:
        new.tags["namespace.resourcemaxapps"] = choose.choice(NUMBERS)

    return _applications(choose, kind, fill)


def _tag_json(choose: random.Random, kind: str) -> Call:
    def fill(new: Any) -> None:
        for name in choose.sample(("namespace.resourcequota", "namespace.resourceguaranteed"), choose.randint(1, 2)):
            new.tags[name] = choose.choice((*JSON, json.dumps({"memory": choose.choice(NUMBERS)})))

    return _applications(choose, kind, fill)


def _tag_names(choose: random.Random, kind: str) -> Call:
    names = ("namespace", "namespace.parentqueue", "application.create.force", "application.stateaware.disable", "x")

    def fill(new: Any) -> None:
        new.tags[choose.choice(names)] = choose.choice((*NAMES, "true"))

    return _applications(choose, kind, fill)


def _names(choose: random.Random, kind: str) -> Call:
    def fill(new: Any) -> None:
        for name in choose.sample(("applicationID", "queueName", "partitionName"), choose.randint(1, 3)):
            setattr(new, name, choose.choice(NAMES))
        new.ugi.user = choose.choice(NAMES)
        new.ugi.groups.extend(choose.choice(NAMES) for _ in range(choose.choice((0, 3, 999))))

    return _applications(choose, kind, fill)


def _gangs(choose: random.Random, kind: str) -> Call:
    def fill(new: Any) -> None:
        new.executionTimeoutMilliSeconds = choose.choice(AMOUNTS)
        for name in ("vcore", choose.choice(NAMES)):
            new.placeholderAsk.resources[name].value = choose.choice(AMOUNTS)
        if hasattr(new, "gangSchedulingStyle"):
            new.gangSchedulingStyle = choose.choice(("Hard", "Soft", *NAMES))

    return _applications(choose, kind, fill)


def _amounts(choose: random.Random, kind: str) -> Call:
    def fill(ask: Any) -> None:
        ask.allocationKey = choose.choice((ask.allocationKey, choose.choice(NAMES)))
        for name in ("vcore", "memory", choose.choice(NAMES)):
            ask.resourceAsk.resources[name].value = choose.choice(AMOUNTS)
        ask.maxAllocations = choose.choice((1, *COUNTS))
        ask.executionTimeoutMilliSeconds = choose.choice(AMOUNTS)
        ask.placeholder = choose.random() < 0.3
        ask.taskGroupName = choose.choice(("", "group", *NAMES))

    return _asks(choose, kind, fill)


def _ask_tags(choose: random.Random, kind: str) -> Call:
    values: Mapping[str, Sequence[str]] = {
        "schedulerd.io/node-selector": SELECTORS,
        "yunikorn.apache.org/requiredNode": NAMES,
        "yunikorn.apache.org/allow-preemption": NAMES,
        "schedulerd.io/asked-at": NUMBERS,
        "schedulerd.io/predicates": NAMES,
    }

    def fill(ask: Any) -> None:
        name = choose.choice(sorted(values))
        ask.tags[name] = choose.choice(values[name])

    return _asks(choose, kind, fill)


def _expressions(choose: random.Random, kind: str) -> Call:
    request = si_2021_pb2.UpdateRequest(rmID=RM_2021)
    for _ in range(choose.randint(1, 20)):
        ask = request.asks.add(allocationKey=f"k{choose.randrange(10**6)}", applicationID=APPLICATION, maxAllocations=1)
        ask.resourceAsk.resources["vcore"].value = 1
        simple: Any = ask.placementConstraint.simpleConstraint
        for _ in range(choose.choice((1, 3, 100, 101))):
            one = simple.nodeAffinityConstraint.targetExpressions.add(targetKey=choose.choice(NAMES))
            one.targetOperator = choose.choice((0, 1, 2, 3, 77))
            one.targetValues.extend(choose.choice(NAMES) for _ in range(choose.choice((0, 1, 20))))
        if choose.random() < 0.5:
            about: Any = simple.allocationAffinityAttribute
            about.scope, about.required = choose.choice(NAMES), choose.random() < 0.5
            about.minCardinality, about.maxCardinality = choose.choice(COUNTS), choose.choice(COUNTS)
            about.tragetExpressions.add(targetKey=choose.choice(NAMES), targetOperator=choose.randrange(4))
    return _scheduler(kind, "Update", request)


def _nodes(choose: random.Random, kind: str) -> Call:
    request = si_pb2.NodeRequest(rmID=RM)
    for _ in range(choose.randint(1, 20)):
        node = request.nodes.add(nodeID=choose.choice((f"n{choose.randrange(50)}", NODE, *NAMES)))
        node.action = choose.choice((0, 1, 2, 3, 4, 5, 6, 77))  # type: ignore[assignment]
        for resource in (node.schedulableResource, node.occupiedResource):
            for name in ("vcore", choose.choice(NAMES)):
                resource.resources[name].value = choose.choice(AMOUNTS)
        for name in ("si/node-partition", "si/hostname", "ready", choose.choice(NAMES)):
            node.attributes[name] = choose.choice((*NAMES, "x" * 60_000))
        for number in range(choose.choice((0, 1, 30))):
            existing = node.existingAllocations.add(UUID=f"u{number}", allocationKey=choose.choice(NAMES))
            existing.applicationID = choose.choice((APPLICATION, *NAMES))
            existing.resourcePerAlloc.resources["vcore"].value = choose.choice(AMOUNTS)
            existing.allocationTags[choose.choice(NAMES)] = choose.choice((*NAMES, *JSON))
    return _scheduler(kind, "UpdateNode", request)


def _releases(choose: random.Random, kind: str) -> Call:
    request = si_pb2.AllocationRequest(rmID=RM)
    for _ in range(choose.randint(1, 50)):
        names = {name: choose.choice(NAMES) for name in ("applicationID", "partitionName", "allocationKey", "message")}
        request.releases.allocationsToRelease.add(
            UUID=choose.choice(NAMES), terminationType=choose.randrange(9), **names
        )
        request.releases.allocationAsksToRelease.add(terminationType=choose.randrange(9), **names)
    return _scheduler(kind, "UpdateAllocation", request)


def _configuration(choose: random.Random, kind: str, text: str) -> Call:
    """The text as a registration, an update or a text to be validated."""
    match choose.randrange(4):
        case 0:
            return _scheduler(
                kind, "RegisterResourceManager", si_pb2.RegisterResourceManagerRequest(rmID=RM, config=text)
            )
        case 1:
            message: Message = si_pb2.UpdateConfigurationRequest(rmID=RM, config=text)
            return Call(kind, "schedulerd.v1.Admin", "UpdateConfiguration", [message])
        case _:
            message = admin_pb2.ValidateConfigurationRequest(config=text, rmID=choose.choice(("", RM)))
            return Call(kind, "schedulerd.v1.Admin", "ValidateConfiguration", [message])


def _queue_file(root: Mapping[str, Any], **partition: Any) -> str:
    """A file whose root and partition have these keys too, as JSON, which is YAML."""
    queues = [{"name": "a"}, {"name": "b"}, {"name": "namespaces", "parent": True}]
    whole = {"name": "default", "queues": [{"name": "root", "submitacl": "*", "queues": queues, **root}], **partition}
    return json.dumps({"partitions": [whole]})


def _config_patterns(choose: random.Random, kind: str) -> Call:
    chosen = choose.choice(PATTERNS)
    rule: dict[str, Any] = {"name": choose.choice(("user", "tag", "provided")), "create": True}
    if rule["name"] == "tag":
        rule["value"] = "namespace"
    rule["filter"] = {"type": choose.choice(("allow", "deny")), choose.choice(("users", "groups")): [chosen]}
    limits = [{"limit": "x", "users": [choose.choice(("*", chosen, "user"))], "maxapplications": 5}]
    return _configuration(choose, kind, _queue_file({"limits": limits}, placementrules=[rule]))


def _patterns_met(choose: random.Random, kind: str) -> Call:
    """A file with a pattern is registered; users that take a pattern long are in the kind `users`."""
    rules = [{"name": "user", "create": True, "filter": {"type": "allow", "users": [choose.choice(PATTERNS)]}}]
    rules.append({"name": "provided"})
    text = _queue_file({}, placementrules=rules)
    return _scheduler(kind, "RegisterResourceManager", si_pb2.RegisterResourceManagerRequest(rmID=RM, config=text))


def _users(choose: random.Random, kind: str) -> Call:
    def fill(new: Any) -> None:
        new.ugi.user = choose.choice(("a" * 28 + "!", "a" * 900 + "!", "a," * 400, "ab" * 400 + "\n", "a" * 1_024))
        new.ugi.groups.extend(["a" * 28 + "!"] * choose.choice((0, 1, 500)))

    return _applications(choose, kind, fill)


def _config_durations(choose: random.Random, kind: str) -> Call:
    names = ("preemption.delay", "quota.preemption.delay", "application.unschedasks.backoff.delay")
    properties = {choose.choice((*names, "gang.placeholder.idle.timeout")): choose.choice(DURATIONS)}
    return _configuration(choose, kind, _queue_file({"properties": properties}))


def _config_numbers(choose: random.Random, kind: str) -> Call:
    names = ("priority.offset", "application.unschedasks.backoff", "priority.policy", "application.sort.policy")
    value: Any = choose.choice((*NUMBERS, *AMOUNTS, 1e300, True, None, [], {}))
    root: dict[str, Any] = {
        "properties": {choose.choice(names): choose.choice(NUMBERS)},
        "resources": {choose.choice(("max", "guaranteed")): {choose.choice(("vcore", "memory", *NAMES)): value}},
        "maxapplications": choose.choice((1, *NUMBERS, *AMOUNTS)),
    }
    return _configuration(choose, kind, _queue_file({name: root[name] for name in choose.sample(sorted(root), 2)}))


def _config_names(choose: random.Random, kind: str) -> Call:
    limits = [{"limit": choose.choice(NAMES), "users": [choose.choice(NAMES)], "groups": [choose.choice(NAMES)]}]
    root: dict[str, Any] = {
        "queues": [{"name": choose.choice(NAMES), "submitacl": choose.choice((*NAMES, "," * 9_000))}]
    }
    rules = [{"name": choose.choice(("fixed", "tag", *NAMES)), "value": choose.choice(NAMES)}]
    return _configuration(choose, kind, _queue_file(choose.choice((root, {"limits": limits})), placementrules=rules))


def _config_shapes(choose: random.Random, kind: str) -> Call:
    """Deep, wide, and with the same name often."""
    deep: dict[str, Any] = {"name": "x"}
    for _ in range(choose.choice((50, 150, 300))):
        deep = {"name": "x", "queues": [deep]}
    rule: dict[str, Any] = {"name": "user"}
    for _ in range(choose.choice((50, 300))):
        rule = {"name": "user", "create": True, "parent": rule}
    wide = [{"name": f"q{number}"} for number in range(choose.choice((1_000, 5_000)))]
    text = choose.choice(
        (
            _queue_file({"queues": [deep]}),
            _queue_file({"queues": wide}),
            _queue_file({"queues": [{"name": "same"}] * 2_000}),
            _queue_file({}, placementrules=[rule]),
            _queue_file({}, placementrules=[{"name": "user"}] * 5_000),
            json.dumps({"partitions": [{"name": f"p{one}", "queues": [{"name": "root"}]} for one in range(2_000)]}),
        )
    )
    return _configuration(choose, kind, text)


def _yaml(choose: random.Random, kind: str) -> Call:
    return _configuration(choose, kind, choose.choice(YAML))


def _registrations(choose: random.Random, kind: str) -> Call:
    request = si_pb2.RegisterResourceManagerRequest(rmID=choose.choice((RM, RM_2021)), config=QUEUES)
    request.version = choose.choice(("", *NAMES))
    request.buildInfo[choose.choice(NAMES)] = choose.choice((*NAMES, *JSON))
    request.extraConfig[choose.choice(NAMES)] = choose.choice((*NAMES, *YAML))
    if choose.random() < 0.3:
        request.config, request.policyGroup = "", choose.choice(NAMES)
    return _scheduler(kind, "RegisterResourceManager", request)


def _callbacks(choose: random.Random, kind: str) -> Call:
    hello = callback_pb2.CallbackHello(rmID=RM, version=choose.choice((0, 1, 2, 3, 77)))  # type: ignore[arg-type]
    for name in ("predicates", "preemptionPredicates", "events", "schedulingStates", "stateDump"):
        if name in hello.DESCRIPTOR.fields_by_name:
            setattr(hello, name, choose.random() < 0.5)
    answers = []
    for _ in range(choose.randint(1, 5)):
        answer = callback_pb2.CallbackAnswer()
        for _ in range(choose.choice((0, 5, 500))):
            answer.predicates.add(
                callID=choose.randrange(50), reason=choose.choice(NAMES), success=choose.random() < 0.5
            )
            result = answer.preemptionPredicates.add(callID=choose.randrange(50))
            result.response.index, result.response.success = choose.choice(COUNTS), choose.random() < 0.5
        answer.stateDump.callID = choose.randrange(5)
        answer.stateDump.dump = choose.choice(JSON)
        answer.stateDump.error = choose.choice(("", "x" * 1_000_000, *NAMES))
        answers.append(answer)
    return Call(kind, "schedulerd.v1.Callback", "Connect", [callback_pb2.CallbackAnswer(hello=hello), *answers])


def _admin(choose: random.Random, kind: str) -> Call:
    rm_id = choose.choice((RM, RM, "", *NAMES))
    message: Message = choose.choice(
        (
            admin_pb2.ListEventsRequest(rmID=rm_id, start=choose.choice(AMOUNTS), count=choose.choice(COUNTS)),
            admin_pb2.GetStateDumpRequest(rmID=rm_id),
            admin_pb2.GetAutoScalingMetricsRequest(rmID=rm_id, partition=choose.choice(NAMES)),
            admin_pb2.SetLeaderRequest(rmID=rm_id, leader=choose.choice(NAMES)),
            admin_pb2.UnregisterResourceManagerRequest(rmID=choose.choice((RM, RM_2021))),
        )
    )
    return Call(kind, "schedulerd.v1.Admin", type(message).__name__.removesuffix("Request"), [message])


_MAKERS: Mapping[str, Callable[[random.Random, str], Call]] = {
    "admin": _admin,
    "amounts": _amounts,
    "ask-tags": _ask_tags,
    "callbacks": _callbacks,
    "config-durations": _config_durations,
    "config-names": _config_names,
    "config-numbers": _config_numbers,
    "config-patterns": _config_patterns,
    "config-shapes": _config_shapes,
    "config-yaml": _yaml,
    "expressions": _expressions,
    "gangs": _gangs,
    "names": _names,
    "nodes": _nodes,
    "patterns-met": _patterns_met,
    "registrations": _registrations,
    "releases": _releases,
    "tag-json": _tag_json,
    "tag-names": _tag_names,
    "tag-numbers": _tag_numbers,
    "users": _users,
}
