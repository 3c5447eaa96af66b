"""Explanations of what a conversation has come to, and their sentences."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from schedulerd.core.explain.rules.ask import explain_ask
from schedulerd.core.explain.rules.reasons import explain_application, explain_queue
from schedulerd.core.explain.values import ApplicationExplanation, AskExplanation, QueueExplanation
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.observe.explain_sentences import ask_details, ask_summary
from tests.unit.core.builders import Conversation

ResultT = TypeVar("ResultT")


def finish(work: Generator[None, None, ResultT]) -> ResultT:
    """The value of a generator, however often it stops."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: ResultT = end.value
            return result


def stops(work: Generator[None, None, ResultT]) -> int:
    """How often it stops."""
    return sum(1 for _ in work)


def rm_of(talk: Conversation) -> ResourceManager:
    return talk.scheduler.cluster.resource_managers[talk.rm_id]


def explained(talk: Conversation, key: str = "k", app: str = "app") -> AskExplanation:
    application = talk.model().applications[app]
    return finish(explain_ask(rm_of(talk), talk.model(), application, application.asks[key], talk.now_ns))


def explained_app(talk: Conversation, app: str = "app") -> ApplicationExplanation:
    application = talk.model().applications[app]
    return finish(explain_application(rm_of(talk), talk.model(), application, talk.now_ns))


def explained_queue(talk: Conversation, path: str = "root.a") -> QueueExplanation:
    queue = talk.model().root.find(path)
    assert queue is not None
    return finish(explain_queue(rm_of(talk), talk.model(), queue, talk.now_ns))


def story(talk: Conversation, key: str = "k", app: str = "app") -> list[str]:
    """All sentences about an ask, in order."""
    found = explained(talk, key, app)
    return [*ask_summary(found), *ask_details(found)]
