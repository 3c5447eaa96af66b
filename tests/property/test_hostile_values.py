"""Any text and the largest numbers in every field: no step raises, no check fails, all of it can be told outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd.config import QueueFileInvalid, load_queue_file
from schedulerd.core.applications.rules.namespace_tags import (
    GUARANTEED_TAG,
    MAX_APPLICATIONS_TAG,
    PARENT_QUEUE_TAG,
    QUOTA_TAG,
)
from schedulerd.core.applications.rules.queue_placement import FORCE_CREATE_TAG
from schedulerd.core.language import commands as c
from schedulerd.core.language.facts.fact import Allocated, ApplicationAccepted, ApplicationRejected
from schedulerd.core.language.reading import INT64_MAX, INT64_MIN
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import PartitionSpec, QueueSpec, RuleKind, RuleSpec
from schedulerd.core.state.actions.application_states import STATE_AWARE_DISABLE_TAG
from schedulerd.core.state.constraints.node_selector import NODE_SELECTOR_TAG
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from schedulerd.daemon.sessions.open_calls import Refused
from schedulerd.daemon.transport.request_limits import RequestLimits
from schedulerd.wire.callback import HelloInvalid, read_hello, results_in
from schedulerd.wire.decode import RequestDecoder
from schedulerd.wire.decode_2021 import UpdateDecoder
from tests.loops import examples
from tests.property.everything_told import Outside
from tests.unit.core.builders import EVERYBODY, RM, a_node, a_scheduler, an_app, an_ask
from tests.unit.wire.messages import messages

QUOTA = '{"resources": {"memory": {"value": %s}}}'
HOSTILE = (
    "9" * 5_000,
    str(2**63),
    str(-(2**63) - 1),
    "1e400",
    "Infinity",
    "NaN",
    "-0",
    "\u0663\u0663",
    "\u00b2",
    "1" * 30 + "s",
    "[" * 60_000,
    '{"resources":' * 4_000,
    '{"resources": []}',
    QUOTA % "1e400",
    QUOTA % "Infinity",
    QUOTA % ("9" * 5_000),
    QUOTA % 2**63,
    QUOTA % (2**63 - 1),
    QUOTA % 0,
    QUOTA % '"\u0663"',
    "null",
    '"\\ud800"',
    '{"\\ud800": 1}',
    '{"resources": {"\\ud800": {"value": 1}}}',
    "\x00",
    "\r\n\x1b[31m",
    "\u202e\ufeff\U0010ffff",
    "a in (" + "b," * 20_000 + "b)",
    "a=" + " " * 60_000 + "b c",
    "!" * 60_000,
    "=" * 60_000,
    "," * 60_000,
    "a," * 30_000,
    "." * 2_000,
    "root." + "x." * 60 + "y",
    "root.@recovery@",
    "[rm-1]default",
    "true",
    "%s%n{0}",
    "x" * 70_000,
)
KNOWN = ("", "app", "app-2", "n1", "n2", "k1", "k2", "uuid-1", "root.a", "root.new", "a", "default", "group", "user")
TAGS = (
    QUOTA_TAG,
    GUARANTEED_TAG,
    MAX_APPLICATIONS_TAG,
    PARENT_QUEUE_TAG,
    PARENT_QUEUE_TAG.upper(),
    "namespace",
    FORCE_CREATE_TAG,
    NODE_SELECTOR_TAG,
    REQUIRED_NODE_TAG,
    STATE_AWARE_DISABLE_TAG,
    "si/node-partition",
    "si/hostname",
    "ready",
    "yunikorn.apache.org/allow-preemption",
    "schedulerd.io/asked-at",
    "schedulerd.io/predicates",
)
"""Every tag and attribute that means something, now or soon."""
INT32 = {"priority", "max_allocations", "min_cardinality", "max_cardinality", "index", "action_number"}

known = st.sampled_from(KNOWN)
texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20))
ids = st.one_of(known, known, known, texts)
tags = st.dictionaries(st.one_of(st.sampled_from(TAGS), texts), st.one_of(texts, known), max_size=4)
amounts = st.dictionaries(
    st.one_of(st.sampled_from(("memory", "vcore", "gpu")), texts),
    st.one_of(st.sampled_from((0, 1, INT64_MAX, INT64_MAX - 1)), st.integers(INT64_MIN, INT64_MAX)),
    max_size=3,
).map(Resources)


def extremes(bits: int) -> st.SearchStrategy[int]:
    limit = 2**bits
    return st.one_of(st.sampled_from((0, 1, 1, -1, limit - 1, -limit)), st.integers(-limit, limit - 1))


def of_hint(hint: Any, name: str) -> st.SearchStrategy[Any]:
    """Any value that a field of this type can have when it comes from the wire."""
    arguments = get_args(hint)
    match get_origin(hint):
        case origin if origin in (list, tuple):
            return st.lists(of_hint(arguments[0], name), max_size=2).map(origin)
        case origin if origin is Mapping:
            return tags
        case None:
            pass
        case _:  # a union
            return st.one_of([of_hint(one, name) for one in arguments])
    if hint is type(None):
        return st.none()
    if hint is Resources:
        return amounts
    if hint is str:
        return texts if name == "message" else ids
    if hint is bool:
        return st.booleans()
    if hint is int:
        return extremes(31 if name in INT32 else 63)
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    return items(hint)


def items(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    required = {one.name: of_hint(hints[one.name], one.name) for one in fields(kind)}
    strategies = {name: st.just(RM) if name == "rm_id" else one for name, one in required.items()}
    if kind is c.NewApplication:
        strategies["user"] = st.just("user")
    return st.builds(kind, **strategies)


FROM_OUTSIDE: tuple[type[Any], ...] = (
    c.UpdateNodes,
    c.UpdateApplications,
    c.UpdateAllocations,
    c.GivePredicateResults,
    c.ReportUtilization,
    c.ConnectCallbacks,
)
outside_commands = st.one_of([items(kind) for kind in FROM_OUTSIDE])
OWN: tuple[c.Command, ...] = (c.RunCycle(100), c.RingAlarms(), c.CleanQueues(RM))


def outside(*, predicates: bool = False) -> Outside:
    """A registered resource manager with two nodes of the largest size, and applications in a queue that is there."""
    rules = (
        RuleSpec(RuleKind.TAG, value=PARENT_QUEUE_TAG, create=True),
        RuleSpec(RuleKind.PROVIDED, create=True),
        RuleSpec(RuleKind.TAG, value="namespace", create=True),
    )
    a = QueueSpec("a", guaranteed=Resources(memory=INT64_MAX), max=Limits(gpu=INT64_MAX))
    root = QueueSpec("root", parent=True, submit_acl=EVERYBODY, children=(a,))
    told = Outside(a_scheduler())
    told.step(c.RegisterResourceManager(RM, (PartitionSpec("default", root, rules),)))
    told.step(c.ConnectResourceManager(RM))
    told.step(c.ConnectCallbacks(RM, predicates=predicates, scheduling_states=True))
    largest = {"memory": INT64_MAX, "vcore": INT64_MAX, "gpu": INT64_MAX}
    told.step(c.UpdateNodes(RM, [a_node("n1", largest), a_node("n2", largest)]))
    told.step(c.UpdateApplications(RM, [an_app("app"), an_app("app-2")]))
    return told


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(st.one_of(outside_commands, outside_commands, st.sampled_from(OWN)), max_size=8), st.booleans())
def test_no_value_of_any_field_makes_a_step_raise_or_cannot_be_told(
    commands: list[c.Command], predicates: bool
) -> None:
    told = outside(predicates=predicates)
    for command in commands:
        told.step(command)
        told.step(c.RunCycle(10))
        told.now_ns += 1_000_000_000
    told.now_ns += 10**15
    told.step(c.RingAlarms())
    told.look()


@pytest.mark.parametrize("name", TAGS)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(texts, st.booleans())
def test_no_text_in_a_tag_makes_a_step_raise_or_cannot_be_told(name: str, text: str, forced: bool) -> None:
    told = outside()
    more = {FORCE_CREATE_TAG: "true"} if forced else {}
    facts = told.step(c.UpdateApplications(RM, [an_app("tagged", "root.new", tags={**more, name: text})]))
    assert len([fact for fact in facts if isinstance(fact, ApplicationAccepted | ApplicationRejected)]) == 1
    told.step(c.UpdateAllocations(RM, [an_ask("k", app="app", tags={name: text})]))
    told.step(c.UpdateNodes(RM, [a_node("n3", attributes={name: text})]))
    told.step(c.RunCycle(10))
    told.look()


def test_sums_above_int64_are_told_as_the_largest_int64() -> None:
    told = outside()
    told.step(c.UpdateNodes(RM, [a_node("n3", {"memory": INT64_MAX})]))
    large = [an_ask(f"large-{number}", memory=INT64_MAX) for number in range(3)]
    waiting = an_ask("waits", memory=INT64_MAX, count=1_000_000)
    told.step(c.UpdateAllocations(RM, [*large, waiting]))
    facts = told.step(c.RunCycle(10))
    assert len([fact for fact in facts if isinstance(fact, Allocated)]) == 3
    used = Resources(memory=INT64_MAX)
    told.step(c.ReportUtilization(RM, [c.Utilization(node, used) for node in ("n1", "n2", "n3")]))
    told.step(c.ReportUtilization(RM, [c.Utilization(f"uuid-{number}", used) for number in (1, 2, 3)]))
    partition = told.look()[0]["partitions"][0]
    assert partition["total"]["memory"] == INT64_MAX
    assert partition["queues"][0]["allocated"]["memory"] == INT64_MAX
    assert partition["queues"][0]["pending"]["memory"] == INT64_MAX
    assert partition["outstanding"][0]["count"] == 1_000_000


# The same over the wire.

DECODER = RequestDecoder()
LIMITS = RequestLimits(items_max=1_000, resource_managers_max=1)


def callback_commands(answer: callback_pb2.CallbackAnswer) -> Iterable[c.Command]:
    yield c.GivePredicateResults(RM, [result for _, results in results_in(answer) for result in results])
    try:
        yield c.ConnectCallbacks(RM, predicates=read_hello(answer.hello, None).connect.predicates)
    except HelloInvalid:
        return


DECODERS: dict[type[Any], Callable[[Any], Iterable[c.Command]]] = {
    si_pb2.NodeRequest: DECODER.nodes,
    si_pb2.ApplicationRequest: DECODER.applications,
    si_pb2.AllocationRequest: DECODER.allocations,
    si_2021_pb2.UpdateRequest: UpdateDecoder(DECODER.shared, {"high": 1000}).commands,
    callback_pb2.CallbackAnswer: callback_commands,
}
WORDS = (*KNOWN, *TAGS, *HOSTILE)


@pytest.mark.parametrize("message_type", DECODERS, ids=lambda one: one.DESCRIPTOR.full_name)
def test_no_message_makes_a_step_raise_or_cannot_be_told(message_type: type[Message]) -> None:
    @settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(st.lists(messages(message_type, WORDS, items_max=2), max_size=4))
    def send(sent: list[Any]) -> None:
        told = outside()
        for message in sent:
            if "rmID" in message.DESCRIPTOR.fields_by_name:
                message.rmID = RM
            try:
                read = asyncio.run(LIMITS.parser(message_type)(message.SerializeToString()))
            except Refused:
                continue
            for command in DECODERS[message_type](read):
                told.step(command)
            told.step(c.RunCycle(10))
        told.look()

    send()


FILE = """
partitions:
  - name: %s
    placementrules: [{name: provided, create: %s, value: %s}]
    nodesortpolicy: {resourceweights: {memory: %s}}
    queues:
      - name: root
        submitacl: %s
        queues:
          - name: a
            maxapplications: %s
            resources: {guaranteed: {memory: %s}, max: {vcore: %s}}
            properties: {preemption.delay: %s, priority.offset: %s, application.sort.policy: %s}
            limits: [{limit: x, users: [%s], maxapplications: %s, maxresources: {memory: %s}}]
"""
GOOD = ("default", "true", '""', "1", '"*"', "5", "1", "1", "30s", "1", "fifo", "u", "1", "1")


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.integers(0, len(GOOD) - 1), texts, max_size=3), st.sampled_from(("'", '"', "")))
def test_no_text_of_a_queue_file_makes_it_raise_or_cannot_be_told(hostile: dict[int, str], quote: str) -> None:
    words = list(GOOD)
    for at, text in hostile.items():
        words[at] = f"{quote}{text.replace(quote, '') if quote else text}{quote}"
    try:
        file = load_queue_file(FILE % tuple(words))
    except QueueFileInvalid as problems:
        str(problems).encode()
        for problem in problems.problems:
            problem.without_text().encode()
        return
    told = outside()
    told.step(c.RegisterResourceManager(RM, file.partitions))
    told.step(c.UpdateConfiguration(RM, file.partitions))
    told.look()


@settings(max_examples=examples(100))
@given(st.text(max_size=200) | st.sampled_from(HOSTILE))
def test_any_text_is_a_queue_file_or_has_problems(text: str) -> None:
    try:
        load_queue_file(text)
    except QueueFileInvalid as problems:
        str(problems).encode()
