"""Event records of conversations with a real scheduler: every fact of every step goes through the recorder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Fact
from schedulerd.observe.event_messages import message_of_2023
from schedulerd.observe.event_record import Event
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventRing
from tests.instants import at
from tests.unit.core.builders import Conversation

Said: TypeAlias = tuple[str, str, str, str, str]
"""Type, object, change type, change detail and reference of a record, with the names of the interface."""

SI = si_pb2.EventRecord


class Listener:
    """Records what conversations say, and reads it back."""

    def __init__(self, events_max: int = 10_000) -> None:
        self.ring = EventRing(events_max, "test")
        self.recorder = EventRecorder(self.ring)

    def overhear(self) -> type[Conversation]:
        """A conversation of which every step is recorded."""
        recorder = self.recorder

        class Overheard(Conversation):
            def step(self, command: Command) -> list[Fact]:
                facts = super().step(command)
                recorder.observe(facts, at(self.now_ns))
                return facts

        return Overheard

    def events(self, start: int = 0) -> list[Event]:
        found: list[Event] = []
        while True:
            part = self.ring.read(start, 1_000)
            found += part.events
            start = part.next_id
            if start == self.ring.next_id:
                return found

    def messages(self, start: int = 0) -> list[si_pb2.EventRecord]:
        return [message_of_2023(event) for event in self.events(start)]

    def said(self, start: int = 0) -> list[Said]:
        return [said(message) for message in self.messages(start)]


def recorded(*facts: Fact, now_ns: int = 7) -> list[si_pb2.EventRecord]:
    """The records of these facts and no others."""
    listener = Listener()
    listener.recorder.observe(facts, at(now_ns))
    return listener.messages()


def said(message: si_pb2.EventRecord) -> Said:
    return (
        SI.Type.Name(message.type),
        message.objectID,
        SI.ChangeType.Name(message.eventChangeType),
        SI.ChangeDetail.Name(message.eventChangeDetail),
        message.referenceID,
    )


def amounts(message: si_pb2.EventRecord) -> dict[str, int]:
    return {name: quantity.value for name, quantity in message.resource.resources.items()}


def about(messages: Sequence[si_pb2.EventRecord], object_id: str) -> list[si_pb2.EventRecord]:
    return [message for message in messages if message.objectID == object_id]
