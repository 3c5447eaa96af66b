"""Gangs that declare their task groups, hold room, and cannot all be complete: one goes on, the others give back."""

from __future__ import annotations

from typing import Any

from schedulerd.core.gangs.rules.gang_deadlock import GIVEN_BACK_MAX, gangs_to_release
from schedulerd.core.language.commands import NewApplication, NewAsk
from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.language.facts.gangs import GangGaveWay
from schedulerd.core.language.specs import MILLISECOND_NS, SECOND_NS, PriorityPolicy
from schedulerd.core.language.task_groups import TASK_GROUPS_TAG
from schedulerd.core.state.pending.asks import reclassify
from tests.unit.core.builders import (
    Conversation,
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

GROUP = '[{"name": "w", "min": 3}]'


def a_gang(name: str, queue: str) -> NewApplication:
    return an_app(name, f"root.{queue}", tags={TASK_GROUPS_TAG: GROUP})


def members(name: str, **fields: Any) -> list[NewAsk]:
    return [an_ask(f"{name}{at}", 10, 1, name, task_group="w", **fields) for at in range(3)]


def let_go(talk: Conversation, *node_ids: str) -> list[Fact]:
    """What others run on these nodes ends."""
    for node_id in node_ids:
        talk.release(application_id="others", uuid=f"u-{node_id}")
    return talk.schedule()


def young_holds_one(talk: Conversation) -> list[Fact]:
    """A node of which `young` has reserved the room becomes free."""
    reserved = [one.node.node_id for one in talk.model().applications["young"].reservations]
    node_id = next(one for one in reserved if one not in ("n0", "n1"))
    facts = let_go(talk, node_id)
    assert placeholders(talk) == (2, 1)
    return facts


def two_gangs(first: dict[str, Any], second: dict[str, Any], *, used: int = 0, **of_queues: Any) -> Conversation:
    """Four nodes for one slot each. `old`, in queue a, holds two of them before `young`, in queue b, comes.

    Queue a uses `used` on a node of its own.
    """
    queues = [a_queue_spec("a", **of_queues), a_queue_spec("b", priority_offset=0), a_queue_spec("c")]
    talk = a_conversation(root=a_root(*queues))
    talk.apps(an_app("others", "root.c"))
    for number in range(4):
        talk.nodes(a_node(f"n{number}", {"memory": 10}, an_existing(f"u-n{number}", f"x{number}", "others")))
    if used:
        talk.nodes(a_node("used", {"memory": used}, an_existing("u-used", "x-a", "app", used)))
    talk.apps(a_gang("old", "a"))
    talk.asks(*members("old", **first))
    talk.schedule()
    talk.sleep(3 * SECOND_NS)
    talk.schedule()
    let_go(talk, "n0", "n1")
    talk.apps(a_gang("young", "b"))
    talk.asks(*members("young", **second))
    talk.schedule()
    talk.sleep(3 * SECOND_NS)
    talk.schedule()
    return talk


def there(facts: list[Fact]) -> list[str]:
    """Members that were allocated."""
    return [one.allocation_key for one in of(Allocated, facts) if not one.slot]


def placeholders(talk: Conversation) -> tuple[int, int]:
    """How many slots hold room, of `old` and of `young`."""
    old, young = (talk.model().applications[name].placeholders for name in ("old", "young"))
    return old, young


def test_the_gang_that_the_root_would_serve_first_goes_on_at_once_if_there_is_room_for_one() -> None:
    talk = two_gangs({}, {"priority": 5})
    young_holds_one(talk)
    facts = talk.sleep(2 * MILLISECOND_NS)
    assert only(GangGaveWay, facts).application_id == "old"
    assert there(talk.schedule()) == ["young0", "young1", "young2"]
    assert placeholders(talk)[0] <= 1


def test_a_deadlock_that_is_not_certain_is_resolved_after_its_timeout() -> None:
    talk = two_gangs({}, {"priority": 5})
    talk.nodes(a_node("n9", {"memory": 20}, an_existing("u-n9", "x9", "others", 20)))
    young_holds_one(talk)
    assert not of(GangGaveWay, talk.sleep(3 * SECOND_NS))
    assert only(GangGaveWay, talk.sleep(60 * SECOND_NS)).application_id == "old"


def test_the_older_one_goes_on_if_the_root_sees_no_other_difference() -> None:
    """Queue a shows the priority of its fence only, which is that of queue b."""
    talk = two_gangs({"priority": -1}, {}, priority_policy=PriorityPolicy.FENCE)
    young_holds_one(talk)
    talk.sleep(2 * MILLISECOND_NS)
    assert there(talk.schedule()) == ["old0", "old1", "old2"]


def test_the_queue_that_uses_less_goes_first_and_what_the_gangs_hold_does_not_count() -> None:
    talk = two_gangs({}, {}, used=50)
    young_holds_one(talk)
    assert only(GangGaveWay, talk.sleep(61 * SECOND_NS)).application_id == "old"


def test_a_gang_that_gave_back_twice_is_not_asked_again_by_a_younger_one_of_its_priority() -> None:
    talk = two_gangs({}, {}, used=50)
    gang = talk.model().applications["old"].gang
    assert gang is not None
    gang.gave_back = GIVEN_BACK_MAX
    young_holds_one(talk)
    assert not of(GangGaveWay, talk.sleep(300 * SECOND_NS))


def test_where_the_resource_manager_refuses_slots_the_last_gang_gives_back_whatever_amounts_say() -> None:
    talk = two_gangs({"priority": 5}, {})
    young_holds_one(talk)
    model = talk.model()
    old, young = model.applications["old"], model.applications["young"]
    waiting = next(ask for ask in old.asks.values() if ask.spec.slot and ask.pending)
    reclassify(model, old, waiting, refused=True)
    assert gangs_to_release(model, old) == [young]
