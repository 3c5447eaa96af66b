"""New queue files one after the other on a running scheduler: all that is counted stays right, and only what changed
changes anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.language.commands import NewApplication, NodeAction, UpdateConfiguration
from schedulerd.core.language.facts.configuration import ConfigurationRejected, ConfigurationUpdated
from schedulerd.core.language.facts.fact import CycleRan, Fact
from schedulerd.core.language.facts.reservations import Reserved
from schedulerd.core.language.specs import NodeOrder, PartitionSpec, QueueSpec, RuleKind, RuleSpec
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.views.values import AskView, PartitionView
from tests.property.story import (
    MEMBERSHIPS,
    PAUSES_NS,
    SHAPES,
    Move,
    Story,
    moves,
    plans,
    several_trees,
)
from tests.property.trees import USERS, Tree, changed, seeds, trees
from tests.unit.core.builders import RM, Conversation, a_node, a_scheduler, an_app, an_ask, of

RULES: tuple[tuple[RuleSpec, ...], ...] = (
    (),
    (RuleSpec(RuleKind.PROVIDED, create=True),),
    (
        RuleSpec(RuleKind.USER, create=True, parent=RuleSpec(RuleKind.FIXED, value="p", create=True)),
        RuleSpec(RuleKind.PROVIDED),
    ),
)
CAPACITY = {"memory": 15, "vcore": 3, "gpu": 2}
QUEUES = ("root.p", "root.q", "root.p.p", "root.p.q", "root.q.p", "root.q.q.p", "root.p.p.p.p")
"""Where applications want to go, whether there is such a queue or not."""


@dataclass(frozen=True)
class Section:
    """One partition of a file."""

    name: str
    tree: Tree
    rules: tuple[RuleSpec, ...]
    node_order: NodeOrder

    @property
    def spec(self) -> PartitionSpec:
        return PartitionSpec(self.name, self.tree.root, self.rules, self.node_order)


File = tuple[Section, ...]


@st.composite
def files(draw: st.DrawFn) -> list[File]:
    """What the queue file says one after the other: other quotas, other queues, more or fewer partitions."""

    def section(name: str, tree: Tree) -> Section:
        return Section(name, tree, draw(st.sampled_from(RULES)), draw(st.sampled_from(NodeOrder)))

    first, other = draw(trees), draw(trees)
    in_default = [first, changed(first, draw(seeds)), other, changed(other, draw(seeds))]
    return [
        (section("default", tree), *([section("more", other)] if draw(st.booleans()) else [])) for tree in in_default
    ]


# Whatever is loaded


class Reloads(Conversation):
    """Two partitions at most, in which nodes, applications and asks come and go between reloads."""

    def __init__(self, choice: list[File]) -> None:
        super().__init__(a_scheduler())
        self.choice = choice
        self.now = choice[0]
        self._serial = 0
        self.register(*(section.spec for section in self.now))
        self.connect()
        for section in self.now:
            self.nodes(a_node("n0", CAPACITY, partition=section.name))
            for number, queue in enumerate(QUEUES):
                self.apps(self._application(queue, section.name, number))

    def play(self, what: str, one: int, two: int, three: int) -> None:
        name = self.now[three % len(self.now)].name
        there = self.view(name)
        apps = [app.application_id for app in there.applications]
        app = apps[one % len(apps)] if apps else ""
        match what:
            case "reload":
                self.reload(self.choice[one % len(self.choice)])
            case "wait":
                self.sleep(PAUSES_NS[one % len(PAUSES_NS)])
            case "node":
                self._serial += 1
                self.nodes(a_node(f"n{self._serial}", CAPACITY, partition=name))
            case "decommission":
                nodes = [node.node_id for node in there.nodes] or ["none"]
                self.nodes(a_node(nodes[two % len(nodes)], action=NodeAction.DECOMISSION, partition=name))
            case "release":
                held = [one for node in there.nodes for one in node.allocations]
                if held:
                    gone = held[two % len(held)]
                    self.release(application_id=gone.application_id, uuid=gone.uuid, partition=name)
            case _ if what == "submit" or not apps:
                self.apps(self._application(QUEUES[two % len(QUEUES)], name, one))
            case "ask":
                self._serial += 1
                size = SHAPES[two % len(SHAPES)]
                fields: dict[str, Any] = {"count": 1 + three % 3, "priority": three % 2, "resources": size}
                self.asks(an_ask(f"k{self._serial}", app=app, partition=name, **fields))
            case "take back":
                self.release_asks(application_id=app, partition=name)
            case "remove":
                self.remove(app, partition=name)

    def reload(self, file: File) -> None:
        before = self._kinds()
        if of(ConfigurationRejected, self.step(UpdateConfiguration(RM, tuple(section.spec for section in file)))):
            event("refused: a leaf with applications would become a parent")
            return
        self.now = file
        assert list(self.partitions()) == [section.name for section in file]
        for section in file:
            self._check_queues(self.partitions()[section.name].root, section.tree.root)
        self._note(before)

    def partitions(self) -> dict[str, Partition]:
        found = self.scheduler.cluster.resource_managers[RM].partitions
        return {name: found[name] for name in sorted(found)}

    def _check_queues(self, queue: Queue, spec: QueueSpec) -> None:
        """What the file says of a queue holds, what it does not name is on its way out."""
        for name in ("guaranteed", "max", "max_applications", "properties", "limits", "submit_acl", "is_leaf"):
            assert getattr(queue, name) == getattr(spec, name), name
        assert queue.managed
        assert not queue.draining
        named = {child.name: child for child in spec.children}
        assert named.keys() <= queue.children.keys()
        for name, child in queue.children.items():
            if name in named:
                self._check_queues(child, named[name])
            else:
                assert child.draining or not child.managed

    def _kinds(self) -> dict[str, str]:
        """By queue, whether it is a parent, a leaf, or on its way out."""
        found = {}
        for name, partition in self.partitions().items():
            for queue in partition.root.subtree():
                kind = "draining queue" if queue.draining else "leaf" if queue.is_leaf else "parent"
                found[f"{name}:{queue.path}"] = kind
        return found

    def _note(self, before: Mapping[str, str]) -> None:
        """Tells hypothesis' statistics what the reload did."""
        after = self._kinds()
        for path in before.keys() | after.keys():
            event(f"{before.get(path, 'nothing')} -> {after.get(path, 'nothing')}")
        for partition in self.partitions().values():
            for queue in partition.root.subtree():
                if any(queue.allocated[name] > most for name, most in queue.max.items()):
                    event("a queue over its max")

    def finish(self) -> None:
        """All applications go; what is left is what the file says."""
        for section in self.now:
            there = [app.application_id for app in self.view(section.name).applications]
            self.remove(*there, partition=section.name)
        self.sleep(PAUSES_NS[0])
        for section in self.now:
            assert [queue.path for queue in self.view(section.name).queues] == sorted(section.tree.specs)

    def _application(self, queue: str, partition: str, number: int) -> NewApplication:
        self._serial += 1
        groups = MEMBERSHIPS[number % len(MEMBERSHIPS)]
        user = USERS[number % len(USERS)]
        return an_app(f"a{self._serial}", queue, user=user, groups=groups, partition=partition)


def check_reloads(choice: list[File], plan: list[Move]) -> None:
    """Every step of a conversation is followed by all invariants."""
    story = Reloads(choice)
    for number, move in enumerate(plan):
        story.play(*move)
        if number % 2:
            story.schedule()
    story.finish()


reload_plans = st.lists(moves("reload", "reload", "reload", "decommission"), min_size=20, max_size=40)


@given(files(), reload_plans)
def test_whatever_is_loaded_what_is_counted_stays_right(choice: list[File], plan: list[Move]) -> None:
    check_reloads(choice, plan)


# What changes nothing


class Twin(Story):
    """Is told every now and then of a file that says what holds already."""

    def __init__(self, choice: list[Tree], *, lined_up_anew: bool, keeps_room: bool = True) -> None:
        """`lined_up_anew`: the file differs in something that places nothing, so that all who wait are lined up anew;
        otherwise it is the same word for word."""
        super().__init__(choice, keeps_room=keeps_room)
        self._lined_up_anew = lined_up_anew

    def reload_in_vain(self) -> None:
        before, now = state(self), self.model().spec
        spec = replace(now, preemption_enabled=now.preemption_enabled is not self._lined_up_anew)
        [updated] = self.step(UpdateConfiguration(RM, (spec,)))
        assert isinstance(updated, ConfigurationUpdated)
        assert updated.changed is self._lined_up_anew
        assert state(self) == before


def state(story: Story) -> PartitionView:
    """All that can be seen, but for what is found out anew by the next cycle, and the preemption switch."""
    view = story.view()
    applications = [replace(app, asks=list(map(without_reasons, app.asks))) for app in view.applications]
    return replace(view, applications=applications, outstanding=[], preemption_enabled=True)


def without_reasons(ask: AskView) -> AskView:
    return replace(ask, waiting_for="", no_preemption_because="")


def told(facts: list[Fact]) -> list[Fact]:
    """What a resource manager hears of, and then for whom room is kept: after a reload a cycle has to find out anew who
    finds no node, and so may come to them later."""
    heard = [fact for fact in facts if not isinstance(fact, CycleRan | Reserved)]
    return [*heard, *kept_for(facts)]


def kept_for(facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if isinstance(fact, Reserved)]


def check_twins(choice: list[Tree], plan: list[Move], *, lined_up_anew: bool, keeps_room: bool = True) -> None:
    """Both tell the same in every cycle. When everybody is lined up anew, since when a request class finds no node is
    found out anew as well, and so for whom room is kept, and when: the story ends where that makes the first
    difference; where no room is kept there is none."""
    twin = Twin(choice, lined_up_anew=lined_up_anew, keeps_room=keeps_room)
    other = Story(choice, keeps_room=keeps_room)
    for number, move in enumerate(plan):
        twin.play(*move)
        other.play(*move)
        if number % 3 == 0:
            twin.reload_in_vain()
        if number % 2:
            facts, expected = told(twin.schedule()), told(other.schedule())
            event("something is placed" if facts else "nothing is placed")
            if lined_up_anew and facts != expected and kept_for(facts + expected):
                event("room is kept for another ask, or later")
                return
            assert facts == expected
            assert state(twin) == state(other)
            assert twin.view().outstanding == other.view().outstanding


def check_same_file(choice: list[Tree], plan: list[Move]) -> None:
    check_twins(choice, plan, lined_up_anew=False)


def check_lining_up_anew(choice: list[Tree], plan: list[Move]) -> None:
    check_twins(choice, plan, lined_up_anew=True)
    check_twins(choice, plan, lined_up_anew=True, keeps_room=False)


@given(several_trees, plans)
def test_the_same_file_again_changes_nothing_now_or_later(choice: list[Tree], plan: list[Move]) -> None:
    check_same_file(choice, plan)


@given(several_trees, plans)
def test_positioning_all_entities_anew_changes_nothing_now_or_later(choice: list[Tree], plan: list[Move]) -> None:
    check_lining_up_anew(choice, plan)
