"""Why nothing is preempted for an ask, as people read it: the queue and the resource that decided are named."""

from __future__ import annotations

from collections.abc import Mapping

from schedulerd.core.language.facts.preemption import PreemptionRefused
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from tests.unit.core.builders import Conversation, a_queue_spec, an_app, of
from tests.unit.core.decisions import a_talk, leaf, memory, parent, run
from tests.unit.core.preemption_builders import an_entitled_ask, wait

NO_NODE = "on no node would the allocations that may be preempted make enough room (1 considered)"
NO_VICTIMS = "no queue that it may take from uses more than it is guaranteed"


def why(talk: Conversation, amount: int | Mapping[str, int] = 10) -> str:
    """Why nothing is preempted for an ask of root.c."""
    talk.apps(an_app("claimer", "root.c"))
    resources = Resources(memory(amount) if isinstance(amount, int) else amount)
    talk.asks(an_entitled_ask(app="claimer", resources=resources))
    [refused] = of(PreemptionRefused, wait(talk, 31 * SECOND_NS))
    return refused.reason.removeprefix("nothing is preempted for ask c of application claimer: ")


def test_a_queue_at_its_guarantee() -> None:
    talk = a_talk(leaf("c", 30), leaf("pb", 10), leaf("v"), capacity=memory(20))
    run(talk, "root.pb", "k1")
    run(talk, "root.v", "k2")
    assert why(talk, 20) == f"{NO_NODE}: queue root.pb is at its guarantee of memory"


def test_a_queue_below_its_guarantee() -> None:
    talk = a_talk(leaf("c", 30), leaf("pb", 11), capacity=memory(10))
    run(talk, "root.pb", "k1")
    assert why(talk) == f"{NO_VICTIMS}: queue root.pb is below its guarantee of memory"


def test_a_queue_that_can_spare_less_than_one_of_its_allocations() -> None:
    talk = a_talk(leaf("c", 30), leaf("pb", 7), capacity=memory(10))
    run(talk, "root.pb", "k1")
    assert why(talk) == f"{NO_NODE}: queue root.pb is only 3 memory above its guarantee"


def test_a_queue_that_can_spare_one_allocation_and_not_two() -> None:
    talk = a_talk(leaf("c", 30), leaf("pb", 10), capacity=memory(20))
    run(talk, "root.pb", "k1")
    run(talk, "root.pb", "k2")
    assert why(talk, 20) == f"{NO_NODE}: queue root.pb is only 10 memory above its guarantee"


def test_the_parent_of_the_victims() -> None:
    talk = a_talk(leaf("c", 30), parent("p", leaf("v"), guaranteed=10), leaf("w"), capacity=memory(20))
    run(talk, "root.p.v", "k1")
    run(talk, "root.w", "k2")
    assert why(talk, 20) == f"{NO_NODE}: queue root.p is at its guarantee of memory"


def test_a_resource_that_the_ask_is_not_short_of() -> None:
    talk = a_talk(leaf("c", 30), a_queue_spec("v", guaranteed={"vcore": 5}), capacity={"memory": 10, "vcore": 50})
    run(talk, "root.v", "k", {"memory": 10, "vcore": 5})
    assert why(talk) == f"{NO_NODE}: queue root.v is at its guarantee of cpu"


def test_what_is_short_is_not_guaranteed() -> None:
    talk = a_talk(leaf("c", 30), leaf("v"), capacity={"memory": 50, "vcore": 5})
    run(talk, "root.v", "k", {"memory": 10, "vcore": 5})
    said = f"{NO_NODE}: short there is cpu, which is not guaranteed to it"
    assert why(talk, {"memory": 10, "vcore": 5}) == said


def test_what_has_a_higher_priority_is_not_protected_by_a_guarantee() -> None:
    talk = a_talk(leaf("c", 30), leaf("pb", 10), leaf("v"), capacity=memory(10))
    run(talk, "root.v", "k", priority=1)
    assert why(talk) == NO_NODE
