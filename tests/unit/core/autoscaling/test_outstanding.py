"""Which asks lack nothing but room on nodes, and how many of equal ones: worked out by hand."""

from __future__ import annotations

from schedulerd.core.autoscaling.rules.outstanding import outstanding, unschedulable_within_quotas
from schedulerd.core.language.commands import ConnectCallbacks, NewAsk, NodeAction
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import LimitSpec
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from tests.unit.core.answering_rm import AnsweringRM, Refuses
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    placed,
)

ROOM = {"memory": 100, "vcore": 10}


def counted(talk: Conversation) -> list[tuple[str, dict[str, int], int]]:
    """(leaf, size, count), as they are found."""
    return [
        (one.leaf.path, one.pending_class.request_class.resources.nonzero(), one.pending)
        for one in outstanding(talk.model())
    ]


def waits(talk: Conversation, *asks: NewAsk) -> None:
    talk.asks(*asks)
    talk.schedule()


def test_what_more_nodes_would_run() -> None:
    """Quota is handed out in the order in which the asks would be placed."""
    talk = a_conversation(root=a_root(a_queue_spec("a", max={"memory": 250})))
    waits(talk, an_ask("low", 100, 2), an_ask("high", 60, 3, priority=1), an_ask("impossible", 300))
    assert talk.outstanding() == [("app", "high", 3)]
    talk.release_asks(allocation_key="high")
    talk.schedule()
    assert talk.outstanding() == [("app", "low", 2)]
    talk.nodes(a_node("n1", {"memory": 500}))
    assert len(placed(talk.schedule())) == 2
    assert talk.outstanding() == []


def test_what_was_not_tried_yet_is_not_outstanding() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.asks(an_ask("large", 500))
    assert talk.outstanding() == []
    talk.schedule()
    assert talk.outstanding() == [("app", "large", 1)]


def test_it_is_counted_without_counting_up() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    waits(talk, an_ask("k", 500, count=1_000_000))
    assert talk.outstanding() == [("app", "k", 1_000_000)]


def test_quotas_of_parents_are_shared_between_their_leaves() -> None:
    parent = a_queue_spec("p", a_queue_spec("one"), a_queue_spec("two"), max={"memory": 50})
    talk = a_conversation(a_node("n1", {"memory": 10}), root=a_root(parent))
    talk.apps(an_app("first", "root.p.one"), an_app("second", "root.p.two"))
    waits(talk, *(an_ask("k", 15, 2, app=name) for name in ("first", "second")))
    assert counted(talk) == [("root.p.one", {"memory": 15}, 2), ("root.p.two", {"memory": 15}, 1)]


def test_what_is_allocated_counts_before_it() -> None:
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max={"memory": 130})))
    waits(talk, an_ask("runs", 100), an_ask("waits", 10, 7))
    assert talk.outstanding() == [("app", "waits", 3)]


def test_users_have_no_more_outstanding_than_their_limits_let_in() -> None:
    limits = (LimitSpec(("ann",), max=Limits(memory=50)), LimitSpec(("ann",), max=Limits(memory=70)))
    talk = a_conversation(a_node("n1", {"memory": 5}), root=a_root(a_queue_spec("a", limits=limits)))
    talk.apps(an_app("ann-1", user="ann"), an_app("ann-2", user="ann"), an_app("bob-1", user="bob"))
    waits(talk, *(an_ask("k", 20, 2, app=name) for name in ("ann-1", "ann-2", "bob-1")))
    assert talk.outstanding() == [("ann-1", "k", 2), ("bob-1", "k", 2)]


def test_group_limits_count_for_all_of_the_group() -> None:
    limits = (LimitSpec(groups=("staff",), max=Limits(memory=50)),)
    talk = a_conversation(a_node("n1", {"memory": 5}), root=a_root(a_queue_spec("a", limits=limits)))
    talk.apps(*(an_app(user, user=user, groups=("staff",)) for user in ("ann", "bob")))
    waits(talk, an_ask("k", 20, 2, app="ann"), an_ask("k", 20, 2, app="bob"))
    assert talk.outstanding() == [("ann", "k", 2)]


def test_what_waits_for_a_place_to_start_is_not_outstanding() -> None:
    """No node has room for the second application's ask, but a larger cluster would not run it either."""
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max_applications=1)))
    talk.apps(an_app("second"))
    waits(talk, an_ask("large", 500, app="second"))
    assert talk.outstanding() == [("second", "large", 1)]
    waits(talk, an_ask("k"))
    assert talk.outstanding() == []


def test_no_more_applications_start_than_may() -> None:
    talk = a_conversation(root=a_root(a_queue_spec("a", max_applications=2)))
    talk.apps(*(an_app(f"app-{number}") for number in range(4)))
    waits(talk, *(an_ask(key, 7 + len(key), 2, app=f"app-{number}") for number in range(4) for key in ("k", "kk")))
    assert talk.outstanding() == [(f"app-{number}", key, 2) for number in range(2) for key in ("k", "kk")]
    assert counted(talk) == [("root.a", {"memory": size}, 2) for _ in range(2) for size in (8, 9)]


def test_an_application_that_the_quota_keeps_out_leaves_its_place_to_the_next() -> None:
    root = a_root(a_queue_spec("a", max={"memory": 50}, max_applications=2))
    talk = a_conversation(a_node("n1", {"memory": 5}), root=root)
    talk.apps(an_app("second"), an_app("third"))
    waits(talk, an_ask("k", 30), an_ask("k", 30, app="second"), an_ask("k", 20, app="third"))
    assert talk.outstanding() == [("app", "k", 1), ("third", "k", 1)]


def test_one_that_was_about_to_complete_counts_when_it_runs_again() -> None:
    """It needs no free place for that, and leaves none to the second."""
    talk = a_conversation(a_node("n1", ROOM), root=a_root(a_queue_spec("a", max_applications=1)))
    talk.apps(an_app("second"))
    waits(talk, an_ask("k"))
    talk.release(uuid="uuid-1")
    assert talk.app().state == ApplicationState.COMPLETING
    waits(talk, an_ask("again", 500), an_ask("large", 500, app="second"))
    assert talk.outstanding() == [("app", "again", 1)]


def test_users_start_no_more_applications_than_they_may() -> None:
    limits = (LimitSpec(("*",), max_applications=1),)
    talk = a_conversation(root=a_root(a_queue_spec("a", limits=limits)))
    talk.apps(*(an_app(f"{user}-{number}", user=user) for user in ("ann", "bob") for number in range(2)))
    waits(talk, *(an_ask("k", app=f"{user}-{number}") for user in ("ann", "bob") for number in range(2)))
    assert talk.outstanding() == [("ann-0", "k", 1), ("bob-0", "k", 1)]


def test_daemons_asks_for_one_node_are_not_outstanding() -> None:
    talk = a_conversation(a_node("n1", {"memory": 5}))
    waits(talk, an_ask("d", tags={REQUIRED_NODE_TAG: "n1"}), an_ask("k"))
    assert talk.outstanding() == [("app", "k", 1)]


def test_what_others_were_asked_to_end_for_is_not_outstanding_and_has_its_quota() -> None:
    root = a_root(a_queue_spec("a", guaranteed={"memory": 40}, preemption_delay_ns=0), a_queue_spec("b"))
    talk = a_conversation(a_node("n1", {"memory": 40}), root=root)
    talk.apps(an_app("other", "root.b"))
    talk.asks(an_ask("runs", 10, 4, app="other"))
    talk.schedule()
    waits(talk, an_ask("claims", 10, allow_preempt_other=True), an_ask("waits", 10))
    assert any(one.is_entitled for one in talk.model().reservations)
    assert talk.outstanding() == [("app", "waits", 1)]


def test_one_that_others_were_asked_to_end_for_has_the_place_to_start_until_another_has_it() -> None:
    """Also if the quota has no room for more of what it asks for."""
    first = a_queue_spec("a", guaranteed={"memory": 40}, max={"memory": 15}, preemption_delay_ns=0, max_applications=1)
    talk = a_conversation(a_node("n1", {"memory": 40}), root=a_root(first, a_queue_spec("b")))
    talk.apps(an_app("other", "root.b"), an_app("second"))
    talk.asks(an_ask("runs", 10, 4, app="other"))
    talk.schedule()
    waits(talk, an_ask("claims", 10, allow_preempt_other=True))
    assert any(one.is_entitled for one in talk.model().reservations)
    waits(talk, an_ask("small", 2, app="second"))
    assert talk.outstanding() == []
    waits(talk, an_ask("more", 3))
    assert talk.outstanding() == [("app", "more", 1)]
    talk.nodes(a_node("n2", {"memory": 2}))
    assert placed(talk.schedule()) == [("second", "small", "n2")]
    assert any(one.is_entitled for one in talk.model().reservations)
    assert talk.outstanding() == []


def gang(talk: Conversation, name: str, members: int, user: str = "bob") -> list[NewAsk]:
    talk.apps(an_app(name, user=user, placeholder_ask=Resources(memory=10 * members)))
    return [a_placeholder("p", 10, members, app=name)]


def test_placeholders_of_a_gang_that_could_start_are_outstanding_and_their_real_asks_are_not() -> None:
    talk = a_conversation(a_node("n1", {"memory": 5}))
    waits(talk, *gang(talk, "gang", 3), an_ask("real", 10, 3, app="gang", task_group="group"))
    assert talk.outstanding() == [("gang", "p", 3)]


def test_of_several_gangs_those_are_outstanding_that_the_quota_would_let_start_together() -> None:
    talk = a_conversation(a_node("n1", {"memory": 5}), root=a_root(a_queue_spec("a", max={"memory": 80})))
    waits(talk, *(ask for name in ("one", "two", "three") for ask in gang(talk, name, 3)), an_ask("k", 10, 4))
    assert talk.outstanding() == [("app", "k", 4), ("one", "p", 3)]


def test_a_gang_that_a_limit_keeps_out_is_promised_nothing() -> None:
    limits = (LimitSpec(("ann",), max=Limits(memory=30)),)
    root = a_root(a_queue_spec("a", limits=limits, max={"memory": 60}))
    talk = a_conversation(a_node("n1", {"memory": 5}), root=root)
    talk.apps(an_app("other", user="ann"))
    waits(talk, an_ask("k", 25, app="other"), *gang(talk, "one", 3, user="ann"), *gang(talk, "two", 2))
    assert talk.outstanding() == [("other", "k", 1), ("two", "p", 2)]


def test_a_gang_that_has_some_members_has_the_rest_outstanding() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}), root=a_root(a_queue_spec("a", max={"memory": 45})))
    waits(talk, *gang(talk, "gang-1", 3))
    assert talk.outstanding() == [("gang-1", "p", 1)]
    waits(talk, *gang(talk, "gang-2", 1))
    assert talk.outstanding() == [("gang-1", "p", 1), ("gang-2", "p", 1)]
    waits(talk, *gang(talk, "gang-3", 1))  # of the same age: the id decides
    assert talk.outstanding() == [("gang-1", "p", 1), ("gang-2", "p", 1)]


def test_a_real_ask_with_a_placeholder_to_take_is_not_outstanding() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}))
    waits(talk, *gang(talk, "gang", 1))
    waits(talk, an_ask("large", 10, 3))
    assert talk.outstanding() == [("app", "large", 3)]
    talk.asks(an_ask("real", 10, 2, app="gang", task_group="group"))
    assert talk.model().swaps, "nobody was swapped yet"
    assert talk.outstanding() == [("app", "large", 3), ("gang", "real", 1)]
    talk.schedule()
    assert talk.app("gang").awaiting_placeholder == 1
    assert talk.outstanding() == [("app", "large", 3), ("gang", "real", 1)]


def test_an_application_that_is_not_served_has_nothing_outstanding() -> None:
    talk = a_conversation(a_node("n1", {"memory": 5}))
    waits(talk, an_ask("k"))
    talk.nodes(a_node("n1", action=NodeAction.DRAIN_NODE))
    assert talk.outstanding() == [("app", "k", 1)]
    talk.remove("app")
    assert talk.outstanding() == []


def test_what_awaits_a_predicate_result_is_not_outstanding() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}))
    talk.step(ConnectCallbacks(RM, predicates=True))
    waits(talk, an_ask("k", 10, 5))
    assert talk.outstanding() == [("app", "k", 3)], "two of them hold the room there is"


def test_what_the_rm_refuses_where_there_is_room_is_not_outstanding_until_there_is_none() -> None:
    talk = AnsweringRM(Refuses(("k", "n1")))
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app())
    waits(talk, an_ask("k", 10))
    assert talk.outstanding() == []
    waits(talk, an_ask("fill", 20))
    assert talk.outstanding() == [("app", "k", 1)]


def test_an_application_that_starts_with_outstanding_asks_has_started_for_its_refused_ones_as_well() -> None:
    talk = AnsweringRM(Refuses(("refused", "n1")))
    talk.begin(a_root(a_queue_spec("a", max_applications=1)))
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app("app"))
    talk.asks(an_ask("refused", 10), an_ask("large", 50))
    talk.schedule()
    talk.schedule()
    assert talk.outstanding() == [("app", "large", 1)]
    sizes = [
        (one.pending_class.request_class.resources.nonzero(), one.pending)
        for one in unschedulable_within_quotas(talk.model())
    ]
    assert sizes == [({"memory": 50}, 1), ({"memory": 10}, 1)]
