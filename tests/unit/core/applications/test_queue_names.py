"""Names of queues ignore case, and sentences show them as they were written (SEMANTICS I15)."""

from __future__ import annotations

from schedulerd.core.language.facts.fact import ApplicationAccepted, ItemIgnored
from schedulerd.core.language.facts.queues import QueueChange, QueueChanged
from schedulerd.core.language.specs import LimitSpec
from tests.unit.core.builders import (
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
)
from tests.unit.core.configurations import reload

NODE = a_node("n1", {"memory": 100})


def test_applications_that_write_a_queue_differently_are_in_the_same_queue() -> None:
    talk = a_conversation(NODE, root=a_root(a_queue_spec("Team", a_queue_spec("Leaf"))))
    for name, queue in (("one", "ROOT.TEAM.LEAF"), ("two", "root.team.leaf")):
        assert only(ApplicationAccepted, talk.apps(an_app(name, queue))).queue == "root.team.leaf"
    assert talk.queue("root.team.leaf").applications == ["one", "two"]


def test_why_an_ask_waits_is_told_of_the_queue_as_the_file_writes_it() -> None:
    limit = LimitSpec(users=("*",), max_applications=1)
    leaf = a_queue_spec("Leaf", max={"memory": 10}, limits=(limit,))
    talk = a_conversation(NODE, root=a_root(a_queue_spec("Team", leaf)))
    talk.apps(an_app("app", "root.team.leaf"), an_app("next", "root.team.leaf"))
    talk.asks(an_ask("k", 10), an_ask("more", 10), an_ask("other", 0, app="next"))
    talk.schedule()
    told = [ask.waiting_for for ask in (*talk.app("app").asks, *talk.app("next").asks)]
    assert "queue root.Team.Leaf is at its quota: 10 of 10 memory used, 10 more asked" in told[0]


def test_a_file_that_writes_a_queue_differently_names_the_same_queue() -> None:
    talk = a_conversation(NODE, root=a_root(a_queue_spec("Team", max={"memory": 10})))
    talk.apps(an_app("app", "root.team"))
    talk.asks(an_ask("k", 10), an_ask("more", 10))
    talk.schedule()
    facts = reload(talk, a_root(a_queue_spec("TEAM", max={"memory": 10}), a_queue_spec("New")))
    changes = [(one.queue, one.change) for one in of(QueueChanged, facts)]
    assert ("root.new", QueueChange.ADDED) in changes
    assert not [queue for queue, _ in changes if queue == "root.team"]
    talk.schedule()
    (waits,) = talk.app("app").asks
    assert "queue root.TEAM is at its quota" in waits.waiting_for


def test_an_existing_allocation_may_write_its_queue_in_any_case() -> None:
    talk = a_conversation(root=a_root(a_queue_spec("Team")))
    talk.apps(an_app("app", "root.team"))
    facts = talk.nodes(a_node("n1", {"memory": 100}, an_existing(queue="ROOT.TEAM")))
    assert of(ItemIgnored, facts) == []
