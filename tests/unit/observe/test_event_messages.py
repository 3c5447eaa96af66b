"""Events in the three request classes of the interface."""

from __future__ import annotations

import pytest

from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd._generated.si.v2022_12 import event_pb2
from schedulerd.core.language.commands import NodeAction
from schedulerd.observe.event_messages import (
    admin_event,
    message_of_2021,
    message_of_2022,
    message_of_2023,
    reason,
)
from schedulerd.observe.event_record import SI, Event, Record
from tests.unit.core import builders
from tests.unit.core.builders import a_conversation, a_node, an_ask
from tests.unit.observe.event_talk import Listener

STATE = Record(SI.APP, "app", SI.SET, SI.APP_RUNNING, message="runApplication", group="root.a")
ALLOCATION = Record(SI.NODE, "n1", SI.ADD, SI.NODE_ALLOC, "uuid", {"memory": 10, "vcore": 1})
REFUSAL = Record(SI.REQUEST, "k", SI.NONE, SI.DETAILS_NONE, "app", message="why", group="app", reason="RequestRejected")
RESOURCE_MANAGER = Record(SI.UNKNOWN_EVENTRECORD_TYPE, "rm", SI.NONE, SI.DETAILS_NONE, message="running: there")


def an_event(record: Record) -> Event:
    return Event(17, "rm", "default", 123, record)


def test_2023_has_type_detail_reference_and_resource() -> None:
    message = si_pb2.EventRecord(
        type=SI.NODE,
        objectID="n1",
        timestampNano=123,
        eventChangeType=SI.ADD,
        eventChangeDetail=SI.NODE_ALLOC,
        referenceID="uuid",
    )
    message.resource.resources["memory"].value = 10
    message.resource.resources["vcore"].value = 1
    assert message_of_2023(an_event(ALLOCATION)) == message
    assert message_of_2023(an_event(STATE)) == si_pb2.EventRecord(
        type=SI.APP,
        objectID="app",
        message="runApplication",
        timestampNano=123,
        eventChangeType=SI.SET,
        eventChangeDetail=SI.APP_RUNNING,
    )


def test_2022_has_group_and_reason() -> None:
    assert message_of_2022(an_event(STATE)) == event_pb2.EventRecord(
        type=event_pb2.EventRecord.APP,
        objectID="app",
        groupID="root.a",
        reason="AppRunning",
        message="runApplication",
        timestampNano=123,
    )
    assert message_of_2022(an_event(REFUSAL)) == event_pb2.EventRecord(
        type=event_pb2.EventRecord.REQUEST,
        objectID="k",
        groupID="app",
        reason="RequestRejected",
        message="why",
        timestampNano=123,
    )


def test_before_2023_a_message_says_what_the_missing_fields_would() -> None:
    assert message_of_2022(an_event(ALLOCATION)).message == "NodeAllocAdded: uuid"


def test_2021_has_other_numbers_and_none_for_what_is_no_object_of_the_interface() -> None:
    for number, kind in enumerate((SI.REQUEST, SI.APP, SI.NODE, SI.QUEUE)):
        assert message_of_2021(an_event(STATE._replace(kind=kind))) == si_2021_pb2.EventRecord(
            type=si_2021_pb2.EventRecord.Type.ValueType(number),
            objectID="app",
            groupID="root.a",
            reason="AppRunning",
            message="runApplication",
            timestampNano=123,
        )
    assert message_of_2021(an_event(RESOURCE_MANAGER)) is None


@pytest.mark.parametrize("kind", SI.Type.keys())
def test_2022_has_the_kinds_of_objects_of_2023(kind: str) -> None:
    message = message_of_2022(an_event(STATE._replace(kind=SI.Type.Value(kind))))
    assert event_pb2.EventRecord.Type.Name(message.type) == kind


def test_the_record_of_2022_is_one_of_2023_on_the_wire_as_far_as_both_have_the_field() -> None:
    both = si_pb2.EventRecord.FromString(message_of_2022(an_event(STATE)).SerializeToString())
    assert (both.type, both.objectID, both.message, both.timestampNano) == (SI.APP, "app", "runApplication", 123)


def test_the_admin_message_adds_id_and_owner() -> None:
    message = admin_event(an_event(STATE))
    assert (message.id, message.rmID, message.partition) == (17, "rm", "default")
    assert message.record == message_of_2023(an_event(STATE))


@pytest.mark.parametrize(
    ("change", "detail", "word"),
    [
        (SI.SET, SI.APP_COMPLETED, "AppCompleted"),
        (SI.ADD, SI.QUEUE_APP, "QueueAppAdded"),
        (SI.REMOVE, SI.QUEUE_APP, "QueueAppRemoved"),
        (SI.SET, SI.QUEUE_CONFIG, "QueueConfigChanged"),
        (SI.REMOVE, SI.ALLOC_PREEMPT, "AllocPreempt"),
        (SI.REMOVE, SI.NODE_DECOMISSION, "NodeDecomission"),
    ],
)
def test_the_reason_is_one_word_for_change_and_detail(
    change: SI.ChangeType.ValueType, detail: SI.ChangeDetail.ValueType, word: str
) -> None:
    assert reason(Record(SI.APP, "x", change, detail)) == word


def test_every_event_has_a_reason_and_a_message_for_the_versions_before_2023(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listener = Listener()
    monkeypatch.setattr(builders, "Conversation", listener.overhear())
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.asks(an_ask(), an_ask("bad", -1))
    talk.schedule()
    talk.remove("app")
    talk.nodes(a_node("n1", action=NodeAction.DECOMISSION))
    messages = [message_of_2022(event) for event in listener.events()]
    assert len(messages) > 10
    assert all(message.reason and message.message for message in messages)
    assert not any(message.reason == "DetailsNone" for message in messages)
    groups = {(message.type, message.groupID) for message in messages if message.groupID}
    assert groups == {(event_pb2.EventRecord.APP, "root.a"), (event_pb2.EventRecord.REQUEST, "app")}
