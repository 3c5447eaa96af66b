"""Members of a declared gang that are there already, and task groups whose min and max change."""

from __future__ import annotations

from typing import Any

from schedulerd.core.language.commands import ConnectCallbacks, NodeAction
from schedulerd.core.language.facts.fact import ApplicationAccepted, ApplicationRejected, RejectCode, ReleaseRequested
from schedulerd.core.language.lifecycles import ApplicationState, GangState
from schedulerd.core.language.specs import SECOND_NS
from tests.loops import each_row
from tests.unit.core.builders import a_conversation, a_node, a_queue_spec, a_root, an_existing, of, only
from tests.unit.core.gangs.test_declared_gangs import declares, held, member, state_of_gang, told


def test_a_member_that_is_there_needs_no_slot_and_gathering_goes_on() -> None:
    """Somebody else bound two of three: the third waits for its slot, and the gang is complete with that."""
    talk = a_conversation(a_node("n1", {"memory": 5}))
    talk.apps(declares({"name": "w", "min": 3, "resources": {"memory": 10}}))
    running = [an_existing(f"u{at}", f"m{at}", "gang", task_group="w") for at in range(2)]
    talk.nodes(a_node("n2", {"memory": 20}, *running))
    talk.asks(member("m3"))
    assert (told(talk.schedule()), state_of_gang(talk)) == ([], GangState.GATHERING)
    talk.nodes(a_node("n3", {"memory": 10}))
    facts = talk.schedule()
    assert (held(facts), told(facts), state_of_gang(talk)) == (1, ["m3"], GangState.COMPLETE)


def test_room_that_is_held_stays_when_a_member_gets_its_node_elsewhere() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}))
    talk.apps(declares({"name": "w", "min": 4, "resources": {"memory": 10}}))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 30}, *[an_existing(f"u{at}", f"x{at}", "gang", task_group="w") for at in "ab"]))
    facts = talk.schedule()
    assert (held(facts), state_of_gang(talk)) == (2, GangState.COMPLETE)
    talk.nodes(a_node("n3", {"memory": 10}, an_existing("uc", "xc", "gang", task_group="w")))
    assert talk.model().applications["gang"].placeholders == 1, "a complete gang gives the slot of the member back"


def test_a_member_that_was_there_and_is_gone_needs_its_slot_again() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}, an_existing("u", "x", "app")))
    talk.apps(declares({"name": "w", "min": 2, "resources": {"memory": 10}}))
    talk.nodes(a_node("n2", {"memory": 10}, an_existing("u1", "m1", "gang", task_group="w")))
    talk.schedule()
    talk.release(application_id="gang", uuid="u1")
    assert sum(ask.pending for ask in talk.model().applications["gang"].asks.values()) == 2


def test_a_gang_all_of_whose_members_are_there_is_complete() -> None:
    talk = a_conversation()
    talk.apps(declares({"name": "w", "min": 2}))
    talk.asks(member("x"))
    assert told(talk.schedule()) == []
    running = [an_existing(f"u{at}", f"m{at}", "gang", task_group="w") for at in range(2)]
    talk.nodes(a_node("n1", {"memory": 30}, *running))
    assert state_of_gang(talk) is GangState.COMPLETE
    assert told(talk.schedule()) == ["x"]


@each_row(("style", "ends"), [("Soft", ApplicationState.STARTING), ("Hard", ApplicationState.FAILING)])
def test_its_time_ends_by_its_style_whatever_members_are_there(style: str, ends: ApplicationState) -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}, an_existing("u", "x", "app"), an_existing("u1", "m1", "gang")))
    group = {"name": "w", "min": 3, "resources": {"memory": 10}}
    talk.apps(declares(group, gang_style=style, execution_timeout_ms=60_000))
    talk.nodes(a_node("n2", {"memory": 20}, an_existing("u2", "m2", "gang", task_group="w")))
    talk.schedule()
    talk.sleep(3 * SECOND_NS)
    assert held(talk.schedule()) == 1
    released = [one.allocation_key for one in of(ReleaseRequested, talk.sleep(60 * SECOND_NS))]
    assert talk.model().applications["gang"].state is ends
    assert released == (["m1", "m2"] if style == "Hard" else [])


def test_min_and_max_change_in_place() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.apps(declares({"name": "w", "min": 2, "max": 2, "resources": {"memory": 10}}))
    talk.asks(member("many", count=8))
    assert told(talk.schedule()) == ["many"] * 2
    only(ApplicationAccepted, talk.apps(declares({"name": "w", "min": 1, "max": 5, "resources": {"memory": 10}})))
    assert told(talk.schedule()) == ["many"] * 3
    talk.apps(declares({"name": "w", "min": 7, "max": 7, "resources": {"memory": 10}}))
    assert state_of_gang(talk) is GangState.SHORT
    assert told(talk.schedule()) == ["many"] * 2


def test_a_min_that_changes_while_the_gang_gathers_keeps_what_is_held() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}, an_existing("u", "x", "app")), a_node("n2", {"memory": 20}))
    talk.apps(declares({"name": "w", "min": 3, "resources": {"memory": 10}}))
    talk.schedule()
    talk.sleep(3 * SECOND_NS)
    assert held(talk.schedule()) == 2
    talk.apps(declares({"name": "w", "min": 4, "resources": {"memory": 10}}))
    assert talk.model().applications["gang"].placeholders == 2
    talk.apps(declares({"name": "w", "min": 2, "resources": {"memory": 10}, "begun": True}))
    assert (state_of_gang(talk), talk.model().applications["gang"].placeholders) == (GangState.COMPLETE, 2)
    talk.apps(declares({"name": "w", "min": 1, "resources": {"memory": 10}}))
    assert talk.model().applications["gang"].placeholders == 1
    talk.apps(declares({"name": "w", "min": 3, "resources": {"memory": 10}}))
    assert (state_of_gang(talk), held(talk.schedule())) == (GangState.GATHERING, 1)


@each_row(
    "group",
    [
        {"name": "w", "min": 2, "resources": {"memory": 20}},
        {"name": "v", "min": 2, "resources": {"memory": 10}},
        {"name": "w", "min": 2, "resources": {"memory": 10}, "hostPorts": [80]},
        {"name": "w", "min": 2},
        {"name": "w", "min": 0, "resources": {"memory": 10}},
        {"name": "w", "min": 1, "resources": {"memory": 10}},
    ],
)
def test_nothing_else_of_a_declaration_may_change(group: dict[str, Any]) -> None:
    talk = a_conversation()
    talk.apps(declares({"name": "w", "min": 1, "resources": {"memory": 10}}))
    assert only(ApplicationRejected, talk.apps(declares(group))).code is RejectCode.DUPLICATE_ID


def test_a_min_above_a_quota_is_refused_and_the_gang_goes_on() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}), root=a_root(a_queue_spec("a", max={"memory": 30})))
    talk.apps(declares({"name": "w", "min": 2, "resources": {"memory": 10}}))
    facts = talk.apps(declares({"name": "w", "min": 4, "resources": {"memory": 10}}))
    assert "max of queue root.a is 30: the gang could never be placed" in only(ApplicationRejected, facts).reason
    assert held(talk.schedule()) == 2


def test_counts_of_two_groups_that_change_at_once_keep_what_each_of_them_still_needs() -> None:
    talk = a_conversation(a_node("n1", {"memory": 60}))
    talk.apps(declares(two_groups(2, 3)[0], two_groups(2, 3)[1]))
    assert held(talk.schedule()) == 5
    talk.apps(declares(*two_groups(3, 1)))
    gang = talk.model().applications["gang"].gang
    assert gang is not None
    assert gang.task_group("w").idle == 1, "it needs one of three, and gives back two"
    assert held(talk.schedule()) == 1, "the third of the other one"


def two_groups(least: int, other: int) -> tuple[dict[str, Any], dict[str, Any]]:
    size = {"resources": {"memory": 10}}
    return {"name": "v", "min": least, **size}, {"name": "w", "min": other, **size}


def test_a_gang_that_gathers_again_asks_for_all_slots_that_have_gone_meanwhile() -> None:
    """One was too small for its member; the node of another one goes before the RM has answered about its member."""
    talk = a_conversation(a_node("n1", {"memory": 15}), a_node("n2", {"memory": 10}))
    talk.step(ConnectCallbacks(talk.rm_id, predicates=True))
    talk.apps(declares({"name": "v", "min": 1, "resources": {"memory": 5}}, {"name": "w", "min": 2}))
    talk.asks(member("large", 9, task_group="v"), member("a"), member("b"))
    assert held(talk.schedule()) == 3
    assert talk.model().applications["gang"].placeholders == 2
    talk.nodes(a_node("n2", action=NodeAction.DECOMISSION))
    assert state_of_gang(talk) is GangState.GATHERING
    slots = [one for one in talk.model().applications["gang"].asks.values() if one.spec.slot]
    assert sum(one.pending for one in slots) == 2
