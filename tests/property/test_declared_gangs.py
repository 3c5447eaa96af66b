"""Gangs that declare their task groups, in random small clusters: all or nothing, nothing lost, nothing for ever.

After each step all invariants of the core are checked.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

from schedulerd.core.language.commands import ConnectCallbacks, NewApplication, NodeAction
from schedulerd.core.language.facts.fact import (
    Allocated,
    ApplicationChanged,
    Fact,
    ReleaseCause,
    Released,
    ReleaseRequested,
)
from schedulerd.core.language.facts.scheduling_states import PendingReasonChanged, SchedulingState
from schedulerd.core.language.lifecycles import ApplicationState, GangState, ResourceManagerState
from schedulerd.core.language.specs import SECOND_NS, OnBelowMin
from schedulerd.core.language.task_groups import (
    SLOT_KEYS,
    TASK_GROUPS_TAG,
    TOPOLOGY_PREFERRED_TAG,
    TOPOLOGY_REQUIRED_TAG,
)
from schedulerd.core.state.actions import slot_room
from schedulerd.core.state.model import gang as gang_model
from schedulerd.core.state.model.application import DISRUPTED_AS_ONE, DISRUPTION_TAG
from schedulerd.core.state.nodes import gang_plan
from schedulerd.core.state.pending.rules.states import states_of
from tests.loops import each_seed
from tests.unit.core.builders import (
    Conversation,
    a_node,
    a_partition_spec,
    a_queue_spec,
    a_root,
    a_scheduler,
    an_app,
    an_ask,
    an_existing,
    of,
)

STEPS = 80
BLOCK_OF = {"a": "1", "b": "1", "c": "2", "d": "3"}
"""The block of each rack."""


def a_topology(random: Random) -> dict[str, str]:
    return {random.choice(("required", "preferred")): random.choice(("rack", "rack", "block"))}


class Gangs:
    """What the resource manager knows of its gangs and other applications."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.talk = Conversation(a_scheduler())
        guaranteed = {"memory": self.random.choice((0, 30, 100))}
        below_min = self.random.choice(list(OnBelowMin))
        timeout_ns = self.random.choice((0, 10, 60)) * SECOND_NS
        root = a_root(
            a_queue_spec("a", guaranteed=guaranteed, gang_on_below_min=below_min, gang_below_min_timeout_ns=timeout_ns),
            a_queue_spec("b", guaranteed={"memory": self.random.choice((0, 20, 50))}),
        )
        self.talk.register(replace(a_partition_spec(root), topology=(("block", "b"), ("rack", "r"))))
        self.talk.connect()
        self.talk.step(ConnectCallbacks(self.talk.rm_id, pending_reasons=True))
        self.talk.apps(an_app("app", "root.b"))
        self.nodes: dict[str, int] = {}
        self.rack_of: dict[str, str] = {}
        self.groups: dict[str, list[dict[str, Any]]] = {}
        self.styles: dict[str, str] = {}
        self.as_one: set[str] = set()
        self.whole: dict[str, str] = {}
        """By gang: the tag of a topology for all of it."""
        """Gangs whose members are preempted all together."""
        self.members: dict[str, dict[str, str]] = defaultdict(dict)
        """By gang: its keys, and their task groups."""
        self.foreign: dict[str, dict[str, str]] = defaultdict(dict)
        """By gang: UUIDs of members that somebody else has bound, and their task groups."""
        self.bound_to_domain: set[str] = set()
        """Gangs of which a member that somebody else has bound says in which rack the others have to be."""
        self.allocated: dict[str, dict[str, str]] = defaultdict(dict)
        """By application: UUIDs, and their keys."""
        self.started: set[str] = set()
        self.ended: set[str] = set()
        self.resumed: set[str] = set()
        self.in_one_block: set[str] = set()
        """Gangs of which all task groups are to be in one block."""
        self.serial = 0
        self.told: dict[tuple[str, str], tuple[str, SchedulingState | None]] = {}
        """By gang and key: the pending state and scheduling state told last."""

    def next(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def add_node(self) -> None:
        name = self.next("n")
        self.nodes[name] = self.random.choice((10, 20, 30, 50))
        self.rack_of[name] = self.random.choice("abc")
        attributes = {"b": BLOCK_OF[self.rack_of[name]], "r": self.rack_of[name]}
        self.hear(self.talk.nodes(a_node(name, {"memory": self.nodes[name]}, attributes=attributes)))

    def remove_node(self) -> None:
        if len(self.nodes) > 1:
            name = self.random.choice(sorted(self.nodes))
            del self.nodes[name]
            self.hear(self.talk.nodes(a_node(name, action=NodeAction.DECOMISSION)))

    def add_gang(self) -> None:
        name, random = self.next("gang"), self.random
        groups = [
            {
                "name": f"g{at}",
                "min": (least := random.randint(1, 4)),
                **({"max": random.randint(least, 6)} if random.random() < 0.3 else {}),
                **({"resources": {"memory": 10}} if random.random() < 0.4 else {}),
                **({"topology": a_topology(random)} if random.random() < 0.4 else {}),
            }
            for at in range(random.randint(1, 2))
        ]
        self.groups[name], self.styles[name] = groups, random.choice(("Soft", "Hard", "Requeue"))
        if random.random() < 0.3:
            self.as_one.add(name)
        if random.random() < 0.3:
            self.whole[name] = random.choice((TOPOLOGY_REQUIRED_TAG, TOPOLOGY_PREFERRED_TAG))
        if self.whole.get(name) == TOPOLOGY_REQUIRED_TAG:
            self.in_one_block.add(name)
        if random.random() < 0.05 and "required" not in str(groups) and name not in self.in_one_block:
            groups[0]["begun"] = True
            self.started.add(name)
        self.hear(self.talk.apps(self.declaration(name)))

    def declaration(self, name: str) -> NewApplication:
        tags = {TASK_GROUPS_TAG: json.dumps(self.groups[name])}
        if name in self.as_one:
            tags[DISRUPTION_TAG] = DISRUPTED_AS_ONE
        if name in self.whole:
            tags[self.whole[name]] = "block"
        style = self.styles[name]
        return an_app(name, "root.a", tags=tags, gang_style=style, execution_timeout_ms=60_000)

    def change_counts(self) -> None:
        """Min and max of a task group change."""
        if self.alive():
            name = self.random.choice(self.alive())
            group = self.random.choice(self.groups[name])
            group["min"] = self.random.randint(1, 4)
            if self.random.random() < 0.5:
                group["max"] = self.random.randint(group["min"], 6)
            else:
                group.pop("max", None)
            self.hear(self.talk.apps(self.declaration(name)))

    def bind_elsewhere(self) -> None:
        """Somebody else binds a member."""
        names, model = self.alive(), self.talk.model()
        nodes = [node for node in sorted(self.nodes) if model.nodes[node].available["memory"] >= 10]
        if names and nodes:
            name, node = self.random.choice(names), self.random.choice(nodes)
            group = self.random.choice(self.groups[name])["name"]
            keys = [key for key, one in self.members[name].items() if one == group]
            key = self.random.choice([*keys, self.next("f")])
            if key not in self.allocated[name].values():
                uuid = self.next("u")
                self.foreign[name][uuid] = group
                if name in self.in_one_block or any(
                    "required" in str(one.get("topology")) for one in self.groups[name]
                ):
                    self.bound_to_domain.add(name)
                self.members[name].pop(key, None)
                attributes = {"b": BLOCK_OF[self.rack_of[node]], "r": self.rack_of[node]}
                one = an_existing(uuid, key, name, 10, task_group=group)
                update = a_node(node, None, one, action=NodeAction.UPDATE, attributes=attributes)
                self.hear(self.talk.nodes(update))

    def alive(self) -> list[str]:
        return [name for name in self.groups if name not in self.ended]

    def add_members(self) -> None:
        names = self.alive()
        if not names:
            return
        name = self.random.choice(names)
        asks = []
        for _ in range(self.random.randint(1, 4)):
            group = self.random.choice(self.groups[name])
            key = self.next("m")
            size = 10 if "resources" in group else self.random.choice((10, 10, 20))
            may_preempt = self.random.random() < 0.95
            asks.append(an_ask(key, size, 1, name, task_group=group["name"], allow_preempt_other=may_preempt))
            self.members[name][key] = group["name"]
        self.hear(self.talk.asks(*asks))

    def change_member(self) -> None:
        names = [name for name in self.alive() if self.members[name]]
        if names:
            name = self.random.choice(names)
            key = self.random.choice(sorted(self.members[name]))
            if key not in self.allocated[name].values():
                group = self.random.choice(self.groups[name])
                self.members[name][key] = group["name"]
                self.hear(self.talk.asks(an_ask(key, 10, 1, name, task_group=group["name"])))

    def withdraw_member(self) -> None:
        names = [name for name in self.alive() if self.members[name]]
        if names:
            name = self.random.choice(names)
            key = self.random.choice(sorted(self.members[name]))
            if key not in self.allocated[name].values():
                del self.members[name][key]
                self.hear(self.talk.release_asks(application_id=name, allocation_key=key))

    def add_plain(self) -> None:
        count, may_preempt = self.random.randint(1, 3), self.random.random() < 0.5
        self.hear(self.talk.asks(an_ask(self.next("p"), 10, count, allow_preempt_other=may_preempt)))

    def end_some(self) -> None:
        held = [(name, uuid) for name, uuids in self.allocated.items() for uuid in uuids]
        if held:
            name, uuid = self.random.choice(held)
            self.allocated[name].pop(uuid)
            self.hear(self.talk.release(application_id=name, uuid=uuid))

    def remove_gang(self) -> None:
        if self.alive() and self.random.random() < 0.3:
            name = self.random.choice(self.alive())
            self.ended.add(name)
            self.hear(self.talk.remove(name))

    def wait(self) -> None:
        self.hear(self.talk.sleep(self.random.choice((1, 3, 20, 61)) * SECOND_NS))

    def schedule(self) -> None:
        while self.talk.scheduler.wants_cycle():
            self.hear(self.talk.cycle())

    def check_topology(self, fact: Allocated) -> None:
        """All members of a task group that are there are in one domain, if it requires that, and all of a gang are in
        one block, but for those of a gang that resumed without it."""
        if fact.application_id in self.resumed | self.bound_to_domain or fact.application_id not in self.groups:
            return
        there = self.talk.model().applications[fact.application_id].allocations.values()
        for group in self.groups[fact.application_id]:
            level = group.get("topology", {}).get("required")
            if group["name"] == fact.task_group and level:
                domains = {one.node.attributes[level[0]] for one in there if one.spec.task_group == fact.task_group}
                assert len(domains) == 1, f"{fact} in {domains}"
        if fact.application_id in self.in_one_block:
            blocks = {one.node.attributes["b"] for one in there}
            assert len(blocks) == 1, f"{fact} in {blocks}"

    def check_disruption(self, asked: list[ReleaseRequested]) -> None:
        """Whatever is preempted of a gang that is disrupted as a whole, all of it is."""
        preempted = [one for one in asked if one.cause is ReleaseCause.PREEMPTED]
        for name in {one.application_id for one in preempted} & self.as_one:
            there = self.talk.model().applications[name].allocations.values()
            assert all(one.releasing is not None for one in there if not one.spec.slot), f"{name} in part"

    def hear(self, facts: list[Fact]) -> None:
        """Facts of one step, or of several alarms."""
        asked = of(ReleaseRequested, facts)
        self.check_disruption(asked)
        new: dict[str, list[str]] = defaultdict(list)
        for fact in facts:
            match fact:
                case ApplicationChanged(state=ApplicationState.RESUMING):
                    self.resumed.add(fact.application_id)
                case ApplicationChanged(state=ApplicationState.FAILED | ApplicationState.COMPLETED):
                    self.ended.add(fact.application_id)
                case Allocated(slot=False, recovered=True):
                    self.allocated[fact.application_id][fact.uuid] = fact.allocation_key
                case Allocated(slot=False):
                    new[fact.application_id].append(fact.allocation_key)
                    self.allocated[fact.application_id][fact.uuid] = fact.allocation_key
                    self.check_topology(fact)
                case PendingReasonChanged():
                    assert not fact.allocation_key.startswith(SLOT_KEYS), fact
                    self.told[fact.application_id, fact.allocation_key] = fact.state, fact.scheduling_state
                case Released(slot=False):
                    self.allocated[fact.application_id].pop(fact.uuid, None)
                    self.foreign[fact.application_id].pop(fact.uuid, None)
        for name, keys in new.items():
            if name in self.groups and name not in self.started | self.resumed:
                self.started.add(name)
                for group in self.groups[name]:
                    there = sum(self.members[name].get(key) == group["name"] for key in keys)
                    foreign = sum(one == group["name"] for one in self.foreign[name].values())
                    asked_for = sum(one == group["name"] for one in self.members[name].values())
                    assert there + foreign >= min(group["min"], asked_for + foreign), f"{name} starts with {keys}"
                    assert "resources" in group or there + foreign >= group["min"], f"{name} starts with {keys}"
        for one in asked:
            assert not one.allocation_key.startswith(SLOT_KEYS), one
            self.allocated[one.application_id].pop(one.uuid, None)
            self.foreign[one.application_id].pop(one.uuid, None)
            self.hear(self.talk.release(application_id=one.application_id, uuid=one.uuid, termination=one.termination))

    def states(self) -> dict[tuple[str, str], str]:
        """The pending state of each member of a gang that gathers."""
        model = self.talk.model()
        return {
            (name, ask.key): one.state.value
            for name, application in model.applications.items()
            if application.gang is not None and application.gang.state is GangState.GATHERING
            for ask in application.asks.values()
            for one in states_of(model, ResourceManagerState.RUNNING, application, ask)
            if not ask.spec.slot
        }

    def check_told(self) -> None:
        """What has not changed for a while was told, to all members of a gang alike."""
        before = self.states()
        self.hear(self.talk.sleep(25 * SECOND_NS))
        after = self.states()
        same = {name: state for name, state in before.items() if after.get(name) == state}
        for name, state in same.items():
            assert self.told[name][0] == state, f"{name} was told {self.told[name]}"
            told = {one for (gang, _), one in self.told.items() if gang == name[0] and (gang, _) in same}
            assert len(told) == 1, f"members of {name[0]} were told {told}"


@each_seed(range(60), few=10, nightly=range(60, 600))
def test_gangs_start_as_a_whole(seed: int) -> None:
    play(seed)


@each_seed(range(60), few=10, nightly=range(60, 600))
def test_gangs_of_which_the_work_is_divided_among_steps_start_as_a_whole(seed: int) -> None:
    with (
        patch.object(gang_plan, "COUNTED_MAX", 1 + seed % 2),
        patch.object(slot_room, "PLANNED_AND_MADE_MAX", 1),
        patch.object(gang_model, "TOGETHER_MAX", 3 + seed % 3),
    ):
        play(seed)


def play(seed: int) -> None:
    gangs = Gangs(seed)
    gangs.add_node()
    actions = [
        *[gangs.add_node] * 2,
        gangs.remove_node,
        *[gangs.add_gang] * 3,
        *[gangs.add_members] * 8,
        gangs.withdraw_member,
        gangs.change_member,
        *[gangs.add_plain] * 4,
        *[gangs.end_some] * 4,
        gangs.remove_gang,
        *[gangs.wait] * 6,
        gangs.bind_elsewhere,
        gangs.change_counts,
    ]
    for _ in range(STEPS):
        gangs.random.choice(actions)()
        gangs.schedule()
        if gangs.random.random() < 0.1:
            gangs.check_told()
    gangs.hear(gangs.talk.nodes(a_node("large", {"memory": 10_000}, attributes={"b": "3", "r": "d"})))
    gangs.schedule()
    gangs.hear(gangs.talk.sleep(31 * 60 * SECOND_NS))
    gangs.schedule()
    for name in gangs.alive():
        known = [*gangs.members[name].values(), *gangs.foreign[name].values()]
        counts = [sum(one == group["name"] for one in known) for group in gangs.groups[name]]
        has_enough = all(
            "resources" in group or count >= group["min"]
            for group, count in zip(gangs.groups[name], counts, strict=True)
        )
        if has_enough and gangs.members[name] and name not in gangs.bound_to_domain:
            assert name in gangs.started | gangs.resumed, f"{name} waits, though there is room"
    for name in gangs.alive():
        gangs.hear(gangs.talk.remove(name))
    for uuid in list(gangs.allocated["app"]):
        gangs.hear(gangs.talk.release(uuid=uuid))
    assert not gangs.talk.model().allocations
    assert gangs.talk.queue("root").allocated == {}
