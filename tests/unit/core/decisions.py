"""Small full clusters, and what is decided in them for an ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedulerd.core.language.facts.preemption import PreemptionRefusal
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import QueueSpec
from schedulerd.core.preemption.rules.search import Search
from schedulerd.core.state.plans.plan import PlannedPreemption
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    placed,
)
from tests.unit.core.preemption_builders import an_entitled_ask

NOT_ENTITLED = PreemptionRefusal.NOT_ENTITLED
QUOTA = PreemptionRefusal.QUOTA
NO_VICTIMS = PreemptionRefusal.NO_VICTIMS
NO_NODE = PreemptionRefusal.NO_NODE


def memory(amount: int) -> dict[str, int]:
    return {"memory": amount}


def leaf(name: str, guaranteed: int = 0, **fields: Any) -> QueueSpec:
    return a_queue_spec(name, guaranteed=memory(guaranteed) if guaranteed else None, **fields)


def parent(name: str, *children: QueueSpec, guaranteed: int = 0, **fields: Any) -> QueueSpec:
    return a_queue_spec(name, *children, guaranteed=memory(guaranteed) if guaranteed else None, **fields)


def a_talk(*queues: QueueSpec, capacity: Mapping[str, int] | None = None) -> Conversation:
    """These queues, and n1."""
    return a_conversation(a_node("n1", dict(capacity or memory(100))), root=a_root(*queues))


def run(talk: Conversation, queue: str, key: str, amount: int | Mapping[str, int] = 10, **fields: Any) -> None:
    """Something runs in the queue, in an application called like the queue unless told otherwise."""
    app = fields.pop("app", queue)
    if app not in talk.model().applications:
        talk.apps(an_app(app, queue))
    resources = Resources(memory(amount) if isinstance(amount, int) else amount)
    talk.asks(an_ask(key, app=app, resources=resources, **fields))
    assert [entry[:2] for entry in placed(talk.schedule())] == [(app, key)]


def planned(search: Search) -> PlannedPreemption | None:
    """The one preemption of the plan that a search found, if it found one."""
    plan = search.plan()
    return None if plan is None else plan.preemptions[0]


def decide(
    talk: Conversation, queue: str = "root.c", amount: int | Mapping[str, int] = 10, **fields: Any
) -> PlannedPreemption | PreemptionRefusal | None:
    """What is decided for one that asks for so much in the queue, and why not if that is nothing."""
    app = fields.pop("app", "claimer")
    if app not in talk.model().applications:
        talk.apps(an_app(app, queue))
    resources = Resources(memory(amount) if isinstance(amount, int) else amount)
    talk.asks(an_entitled_ask("c", app=app, resources=resources, **fields))
    assert placed(talk.schedule()) == []
    application = talk.model().applications[app]
    ask = application.asks["c"]
    search = Search(talk.model(), application, application.groups[ask.group_key], ask)
    assert search.run(10**9)
    return planned(search) or search.refusal


def chosen(decision: PlannedPreemption | PreemptionRefusal | None) -> set[str]:
    assert isinstance(decision, PlannedPreemption), decision
    return {one.key for one in decision.victims}
