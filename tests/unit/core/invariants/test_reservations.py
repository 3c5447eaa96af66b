"""What is wrong with reservations, or with room that is being released, is named; each sentence is provoked once."""

from __future__ import annotations

from collections.abc import Callable

from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition
from tests.loops import each_row
from tests.unit.core.builders import Conversation, a_conversation, a_node, a_queue_spec, a_root, an_app, an_ask
from tests.unit.core.preemption_builders import a_daemon, fill, wait


def a_talk() -> Conversation:
    """`d` has an entitled reservation on n1, for which `v` is preempted; `big` has an aging one on n2."""
    talk = a_conversation(
        a_node("n1", {"memory": 10}), root=a_root(a_queue_spec("a"), a_queue_spec("v"), a_queue_spec("d"))
    )
    fill(talk, "victims", "root.v", v=10)
    talk.nodes(a_node("n2", {"memory": 20}))
    fill(talk, "others", "root.v", o=15)
    talk.apps(an_app("daemons", "root.d"))
    talk.asks(a_daemon(), an_ask("big", 20))
    wait(talk, 2 * SECOND_NS)
    assert [one.is_entitled for one in talk.model().reservations] == [True, False]
    return talk


def entitled(partition: Partition) -> Reservation:
    return next(one for one in partition.reservations if one.is_entitled)


def soft(partition: Partition) -> Reservation:
    return next(one for one in partition.reservations if not one.is_entitled)


def victim_runs_in_the_same_application(partition: Partition) -> None:
    [victim] = entitled(partition).victims
    entitled(partition).application = victim.application


def the_victim_is_unknown(partition: Partition) -> None:
    entitled(partition).victims.clear()


def the_victim_does_not_know(partition: Partition) -> None:
    next(iter(entitled(partition).victims)).makes_room = None


def the_victim_goes_for_another_reason(partition: Partition) -> None:
    next(iter(entitled(partition).victims)).releasing = TerminationType.TIMEOUT


def the_node_forgot(partition: Partition) -> None:
    partition.nodes["n2"].reservations.clear()


def the_ask_forgot(partition: Partition) -> None:
    soft(partition).ask.reservations.clear()


def less_is_pending(partition: Partition) -> None:
    soft(partition).ask.pending = 0


def one_too_many_counts(partition: Partition) -> None:
    partition.aging_reservations += 1


def it_would_never_end(partition: Partition) -> None:
    alarm = soft(partition).alarm
    assert alarm is not None
    alarm.live = False


def more_is_leaving(partition: Partition) -> None:
    partition.root.leaving["memory"] += 1


def more_quota_is_reserved(partition: Partition) -> None:
    partition.root.children["a"].quota_reserved["memory"] = 3


def more_is_reserved(partition: Partition) -> None:
    partition.nodes["n2"].reserved["memory"] += 1


def more_is_reserved_with_entitlement(partition: Partition) -> None:
    partition.nodes["n2"].entitled_reserved["memory"] = 1


def more_leaves_the_node(partition: Partition) -> None:
    partition.nodes["n2"].leaving["memory"] = 1


def too_much_is_free(partition: Partition) -> None:
    node = partition.nodes["n2"]
    node.free = node.available


def test_a_state_with_reservations_is_sound() -> None:
    assert violations(a_talk().scheduler) == []


@each_row(
    ("break_it", "sentence"),
    [
        (the_node_forgot, "2 reservations are known, nodes have 1, asks 2"),
        (the_node_forgot, "the reservation of ask big on node n2 is not at its ask or not at its node"),
        (the_ask_forgot, "2 reservations are known, nodes have 2, asks 1"),
        (less_is_pending, "ask big has 1 reservations, and 0 pending"),
        (one_too_many_counts, "2 aging reservations are counted, there are 1"),
        (it_would_never_end, "the reservation of ask big on node n2 has no alarm"),
        (
            the_victim_does_not_know,
            "the reservation of ask d on node n1 has the victim uuid-1, which is not preempted for it",
        ),
        (
            the_victim_goes_for_another_reason,
            "the reservation of ask d on node n1 has the victim uuid-1, which is not preempted for it",
        ),
        (
            victim_runs_in_the_same_application,
            "the reservation of ask d on node n1 has the victim uuid-1 of its own application",
        ),
        (the_victim_is_unknown, "uuid-1 is preempted for a reservation that does not have it as a victim"),
        (more_is_leaving, "leaving root is {'memory': 11}, counted {'memory': 10}"),
        (more_quota_is_reserved, "reserved in root.a is {'memory': 3}, counted {}"),
        (more_is_reserved, "reserved on node n2 is {'memory': 21}, counted {'memory': 20}"),
        (more_is_reserved_with_entitlement, "reserved with entitlement on node n2 is {'memory': 1}, counted {}"),
        (more_leaves_the_node, "leaving on node n2 is {'memory': 1}, counted {}"),
        (too_much_is_free, "free of node n2 is {'memory': 5}, not available minus reserved"),
    ],
)
def test_what_is_wrong_is_named(break_it: Callable[[Partition], None], sentence: str) -> None:
    talk = a_talk()
    break_it(talk.model())
    assert f"[rm-1]default: {sentence}" in violations(talk.scheduler)
