"""Builders for tests of gangs: placeholders, the real asks for them, and swaps in flight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedulerd.core.language.commands import NewApplication, NewAsk
from schedulerd.core.language.facts.fact import Fact, ReleaseRequested
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import QueueSpec, Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
    placed,
)


def a_gang(app: str = "gang", memory: int = 20, queue: str = "root.a", **fields: Any) -> NewApplication:
    """An application that announces placeholders of so much memory."""
    fields.setdefault("placeholder_ask", Resources(memory=memory))
    return an_app(app, queue, **fields)


def real(key: str = "r", memory: int = 10, count: int = 1, app: str = "gang", **fields: Any) -> NewAsk:
    """A real ask of the task group `group` unless told otherwise."""
    fields.setdefault("task_group", "group")
    return an_ask(key, memory, count, app, **fields)


def a_held_place(uuid: str = "e1", key: str = "p", memory: int = 10, app: str = "gang") -> Any:
    """A placeholder that an RM reports with its node."""
    return an_existing(uuid, key, app, memory, task_group="group", placeholder=True)


def a_full_gang(
    count: int = 2,
    memory: int = 100,
    root: QueueSpec | None = None,
    timeouts: Timeouts | None = None,
    **fields: Any,
) -> Conversation:
    """An application `gang` whose placeholders of 10 are all placed on n1; `fields` are those of the application.

    It announces as much as it holds, so that it is complete, unless told otherwise.
    """
    talk = a_conversation(a_node("n1", {"memory": memory}), root=root, timeouts=timeouts)
    fields.setdefault("placeholder_ask", Resources(memory=10 * count))
    talk.apps(a_gang(**fields))
    talk.asks(a_placeholder("p", count=count, app="gang"))
    assert len(placed(talk.schedule())) == count
    return talk


def a_swap(talk: Conversation, *asks: NewAsk) -> ReleaseRequested:
    """The real ask `r`, or these, sent, and awaiting its placeholder: the one release that this asks the RM for."""
    talk.asks(*(asks or (real(),)))
    return only(ReleaseRequested, talk.schedule())


def asked_to_release(facts: Sequence[Fact]) -> list[tuple[str, str]]:
    """(key, termination) of what the RM is asked to release, in order."""
    return [(one.allocation_key, one.termination.name) for one in of(ReleaseRequested, facts)]


def confirm(talk: Conversation, request: ReleaseRequested, **fields: Any) -> list[Fact]:
    """The RM says that it is gone, with the type it was asked with unless told otherwise."""
    named = {"application_id": request.application_id, "uuid": request.uuid, "termination": request.termination}
    return talk.release(**{**named, **fields})
