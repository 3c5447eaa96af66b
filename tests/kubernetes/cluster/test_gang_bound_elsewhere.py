"""A gang of which somebody else has bound a member: its application runs, and the other members wait for each other."""

from __future__ import annotations

from typing import NoReturn

import pytest

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.gangs.model import Slot
from schedulerd.kubernetes.metadata.gangs import is_placeholder
from schedulerd.kubernetes.metadata.pods import PLACED
from tests.kubernetes.builders import app, node, placed
from tests.kubernetes.cluster.core_world import CoreGangWorld
from tests.kubernetes.cluster.gang_play import (
    grouped,
    grouping,
    made,
    member,
    pod_group,
    started,
    the_placeholder,
)
from tests.kubernetes.cluster.play import Play, of
from tests.loops import each_seed

APP = app("a")
MEMBERS = ["w0", "w1", "w2", "w3"]


class World(CoreGangWorld):
    """The real core. A gang of four, room for two, and one of them that somebody else binds to a full node."""

    def __init__(self, seed: int, style: str = "Soft") -> None:
        super().__init__(seed, kills=False)
        self.is_quiet = self.is_calm = True
        for name, cpu in (("n", "2"), ("full", "1m")):
            self.nodes.add(name)
            self._watch.append(v.Put(node(name, cpu=cpu)))
        self.start()
        for name in MEMBERS:
            self._put(member(name, members=4, style=style))
        self.after(5)
        self._put(placed(self.pods["w0"], "full"))
        self.after(5)
        assert self.state == "Starting"
        assert self.bound == ["w0"]

    def after(self, seconds: int) -> None:
        for _ in range(seconds):
            while self.move():
                pass
            self._pass()
        while self.move():
            pass

    def add_node(self, name: str, cpu: str) -> None:
        self.nodes.add(name)
        self._watch.append(v.Put(node(name, cpu=cpu)))
        self.after(70)

    def evict(self) -> None:
        held = [uid for uid, pod in self.pods.items() if is_placeholder(pod.metadata) and pod.spec.node_name]
        self._remove(held[0])
        self.after(5)

    @property
    def bound(self) -> list[str]:
        return [name for name in MEMBERS if self.pods[name].spec.node_name]

    @property
    def state(self) -> str:
        return self.core.partition.applications["ns.a"].state

    @property
    def held(self) -> int:
        return self.core.partition.applications["ns.a"].placeholders


@each_seed(range(4))
def test_it_starts_when_all_others_have_room(seed: int) -> None:
    world = World(seed)
    assert world.held == 2
    world.add_node("m", "1")
    assert world.bound == MEMBERS
    assert world.held == 0


@each_seed(range(4))
def test_a_placeholder_that_is_evicted_meanwhile_is_made_again(seed: int) -> None:
    """Its room goes to the third one, so that otherwise two members would start without the last one."""
    world = World(seed)
    world.evict()
    world.after(70)
    assert (world.bound, world.held) == (["w0"], 2)
    world.add_node("m", "1")
    assert world.bound == MEMBERS


@pytest.mark.parametrize("style", ["Soft", "Hard"])
@each_seed(range(4))
def test_when_its_time_is_over_its_pods_go_on_without_it(seed: int, style: str) -> None:
    """It runs already, so that neither style ends it. No placeholder comes back."""
    world = World(seed, style)
    world.after(80)
    assert world.bound == ["w0"]
    world.after(40)
    assert world.bound == ["w0", "w1", "w2"]
    assert world.held == 0
    assert not any(is_placeholder(pod.metadata) for pod in world.pods.values())


def begun(*, tells: bool = True) -> tuple[Play, list[str]]:
    """A gang of three that waits, of which somebody else has bound a member, and the keys of its two placeholders.
    `tells`: the daemon has said that it runs."""
    play = started()
    pods = [member(name, members=3) for name in MEMBERS[:3]]
    effects = play.put(placed(pods[0], "n"), *pods[1:])
    effects += play.tell(v.ApplicationAccepted(app("a")), *[v.ApplicationUpdated(app("a"), "Starting", "")] * tells)
    effects += play.put(*(made(one) for one in of(effects, e.CreatePod)))
    keys = [ask.key for ask in of(effects, e.Ask) if ask.is_placeholder]
    assert len(keys) == 2
    return play, keys


def test_none_is_made_again_once_all_have_held_room() -> None:
    play, keys = begun()
    for key in keys:
        play.tell(v.Allocated(app("a"), key, f"u-{key}", "n"))
    effects = play.tell(v.ReleaseWanted(app("a"), keys[0], f"u-{keys[0]}", v.Cause.PREEMPTED, ""))
    effects += play.gone(*(own.pod for own in play.cluster.model.pods.values() if own.uid == keys[0]))
    effects += play.wait(100)
    assert of(effects, e.Ask) == []
    assert of(effects, e.CreatePod) == []


def test_none_is_made_again_once_the_daemon_has_placed_a_member() -> None:
    """Its placeholder was rejected, which the daemon does not count as one that is missing."""
    play, (first, second) = begun()
    play.tell(v.Allocated(app("a"), first, "u", "n"))
    play.allocate("w1", "n")
    effects = play.tell(v.ReleaseWanted(app("a"), first, "u", v.Cause.PREEMPTED, ""))
    effects += play.gone(*(own.pod for own in play.cluster.model.pods.values() if own.uid in (first, second)))
    effects += play.wait(100)
    assert of(effects, e.Ask) == []
    assert of(effects, e.CreatePod) == []


def test_when_its_time_is_over_no_placeholder_is_made_that_could_not_be_created() -> None:
    play = started()
    pods = [member(name, members=3) for name in MEMBERS[:3]]
    play.put(placed(pods[0], "n"), *pods[1:])
    created = of(play.tell(v.ApplicationAccepted(APP), v.ApplicationUpdated(APP, "Starting", "")), e.CreatePod)
    there, refused = created
    play.put(made(there))
    play.bind(made(there).metadata.uid, "n")
    play.tell(v.CreateEnded(app("a"), refused.name, v.CreateResult.REFUSED, "exceeded quota"))
    effects = play.all(v.AskTimedOut(app("a"), made(there).metadata.uid))
    assert [ask.key for ask in of(effects, e.Ask)] == ["w1", "w2"]
    (failed,) = (one for one in of(effects, e.RecordEvent) if one.reason == "GangSchedulingFailed")
    assert failed.note.startswith("ResourceReservationTimeout: 1 of 2 placeholders were placed in 100 s")
    assert of(play.wait(100), e.CreatePod) == []


def test_a_new_daemon_is_told_what_is_left_of_its_time() -> None:
    play, (first, second) = begun()
    assert play.cluster.gang_time(app("a")) is None
    play.tell(v.Allocated(app("a"), first, "u1", "n"))
    began = play.cluster.gang_time(app("a"))
    assert began is not None
    assert began.whole_s == 100
    play.tell(v.Allocated(app("a"), second, "u2", "n"))
    assert play.cluster.gang_time(app("a")) is None


def test_one_is_made_again_also_if_the_member_that_made_it_run_is_gone() -> None:
    """The daemon tells that the application runs when nothing of it runs any longer."""
    play, (first, _) = begun(tells=False)
    play.tell(v.Allocated(app("a"), first, "u", "n"))
    play.gone(placed(member("w0", members=3), "n"))
    play.tell(v.ApplicationUpdated(app("a"), "Starting", ""))
    effects = play.tell(v.ReleaseWanted(app("a"), first, "u", v.Cause.PREEMPTED, ""))
    effects += play.gone(*(own.pod for own in play.cluster.model.pods.values() if own.uid == first))
    assert [ask.is_placeholder for ask in of(effects, e.Ask)] == [True]


def test_it_is_complete_also_if_the_placeholders_are_told_before_that_it_runs() -> None:
    """The daemon tells them on two streams."""
    play, keys = begun(tells=False)
    for key in keys:
        play.tell(v.Allocated(app("a"), key, f"u-{key}", "n"))
    play.tell(v.ApplicationUpdated(app("a"), "Starting", ""))
    assert of(play.tell(v.ReleaseWanted(app("a"), keys[0], f"u-{keys[0]}", v.Cause.PREEMPTED, "")), e.Ask) == []


@pytest.mark.parametrize("cause", [v.Cause.PREEMPTED, v.Cause.TIMEOUT])
def test_a_placeholder_pod_on_its_way_out_does_not_make_it_complete(cause: v.Cause) -> None:
    play, (first, second) = begun()
    play.tell(v.Allocated(app("a"), first, "u", "n"))
    play.tell(v.ReleaseWanted(app("a"), first, "u", cause, ""))
    play.tell(v.Allocated(app("a"), second, "u2", "n"))
    effects = play.gone(*(own.pod for own in play.cluster.model.pods.values() if own.uid == first))
    assert [ask.is_placeholder for ask in of(effects, e.Ask)] == [True], "one stands in for it"
    assert len(of(play.wait(1), e.CreatePod)) == 1


def test_a_complete_one_is_not_told_that_it_has_failed() -> None:
    """The daemon misses the member that has ended, and takes its idle placeholders back after its time."""
    play, keys = begun()
    for key in keys:
        play.tell(v.Allocated(app("a"), key, f"u-{key}", "n"))
    effects = play.all(*(v.AskTimedOut(app("a"), key) for key in keys))
    assert [one.reason for one in of(effects, e.RecordEvent)] == []
    effects = play.tell(*(v.ReleaseWanted(app("a"), key, f"u-{key}", v.Cause.TIMEOUT, "") for key in keys))
    assert of(effects, e.Ask) == []


def test_its_time_may_be_over_while_asks_stand_in_for_all_that_is_missing() -> None:
    play, keys = begun()
    first, second = [the_placeholder(play.tell(v.AskRejected(app("a"), key, "no"))).key for key in keys]
    assert play.all(v.AskTimedOut(app("a"), f"{first}-of-before")) == []
    effects = play.all(v.AskTimedOut(app("a"), first), v.AskTimedOut(app("a"), second))
    assert [one.reason for one in of(effects, e.RecordEvent)] == ["GangSchedulingFailed"]
    assert {first, second} <= {one.key for one in of(effects, e.ReleaseAsk)}
    assert of([*effects, *play.wait(100)], e.Ask) == [], "its pods are asked for, and no placeholder is made again"


class Unread(dict[str, Slot]):
    def values(self) -> NoReturn:
        raise AssertionError("all placeholders are looked at again")


def test_that_its_time_is_over_is_looked_into_once() -> None:
    """The daemon tells it of each placeholder, of which there may be 10,000."""
    play, keys = begun()
    for key in keys:
        play.tell(v.Allocated(app("a"), key, f"u-{key}", "n"))
    gang = play.cluster.model.applications[app("a")].gang
    assert gang is not None
    play.tell(v.AskTimedOut(app("a"), keys[0]))
    assert gang.shortfall == "", "nothing was short"
    gang.slots = Unread(gang.slots)
    play.tell(v.AskTimedOut(app("a"), keys[1]))


def test_pods_of_a_pod_group_say_that_they_were_bound_from_here() -> None:
    play = grouping()
    effects = play.put(pod_group(1), grouped("p0"))
    (application,) = (one.application_id for one in of(effects, e.AddApplication))
    play.tell(v.ApplicationAccepted(application), v.ApplicationUpdated(application, "Starting", ""))
    (bind,) = of(play.tell(v.Allocated(application, "p0", "u", "n")), e.Bind)
    assert bind.annotations == {PLACED: "p0"}
