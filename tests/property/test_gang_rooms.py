"""Where gangs without placeholders get room, beside a naive reference on small clusters (docs/topology.md, Limits)."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from statistics import mean

from schedulerd.core.language.commands import NewAsk
from schedulerd.core.language.facts.fact import Allocated
from schedulerd.core.language.specs import NodeOrder
from schedulerd.core.language.task_groups import TASK_GROUPS_TAG, TOPOLOGY_REQUIRED_TAG
from tests.loops import each_seed
from tests.property.naive_gangs import Group, Place, fewest, has_room
from tests.unit.core.builders import Conversation, a_node, a_partition_spec, a_scheduler, an_app, an_ask, of

LEVELS = (("block", "b"), ("rack", "r"))


def a_cluster(random: Random, nodes: int = 6) -> list[Place]:
    """Racks are within blocks."""
    racks = [random.choice(("1-1", "1-2", "2-1", "2-2", "2-3")) for _ in range(nodes)]
    return [Place(random.randint(0, 4), rack[0], rack) for rack in racks]


def talk_about(places: list[Place], order: NodeOrder = NodeOrder.FAIR) -> Conversation:
    """Every node has four; what is not free there is used."""
    talk = Conversation(a_scheduler())
    talk.register(replace(a_partition_spec(), topology=LEVELS, node_order=order))
    talk.connect()
    talk.apps(an_app())
    for at, place in enumerate(places):
        name = f"n{at}"
        talk.nodes(a_node(name, {"memory": 4}, attributes={"b": place.block, "r": place.rack}))
        tags = {"yunikorn.apache.org/requiredNode": name}
        if place.free < 4:
            talk.asks(an_ask(f"used{at}", 4 - place.free, tags=tags))
    talk.schedule()
    return talk


def placed(talk: Conversation, groups: list[Group], whole: str = "") -> list[Allocated]:
    """Asks for a gang, and returns what is allocated at once."""
    declared = []
    asks: list[NewAsk] = []
    for at, group in enumerate(groups):
        level = {"required": group.required} if group.required else {"preferred": group.preferred}
        topology = {"topology": level} if group.required or group.preferred else {}
        declared.append({"name": f"g{at}", "min": len(group.sizes), **topology})
        asks += [
            an_ask(f"{at}-{number}", size, app="gang", task_group=f"g{at}") for number, size in enumerate(group.sizes)
        ]
    tags = {TASK_GROUPS_TAG: json.dumps(declared), **({TOPOLOGY_REQUIRED_TAG: whole} if whole else {})}
    talk.apps(an_app("gang", "root.a", tags=tags))
    talk.asks(*asks)
    return [one for one in of(Allocated, talk.schedule()) if not one.slot]


def domains(talk: Conversation, facts: list[Allocated], attribute: str, task_group: str = "") -> set[str]:
    nodes = talk.model().nodes
    return {nodes[one.node_id].attributes[attribute] for one in facts if task_group in ("", one.task_group)}


def some_groups(random: Random, *, sizes: tuple[int, ...]) -> list[Group]:
    return [
        Group(
            tuple(random.choice(sizes) for _ in range(random.randint(1, 4))),
            required=random.choice(("", "rack", "block")),
        )
        for _ in range(random.randint(1, 2))
    ]


def check(random: Random, *, groups: list[Group], whole: str) -> tuple[bool, bool]:
    """Whether the gang was placed, and whether it could be. What was placed is legal."""
    places = a_cluster(random)
    talk = talk_about(places)
    facts = placed(talk, groups, whole)
    assert len(facts) in (0, sum(len(one.sizes) for one in groups)), "all or nothing"
    for at, group in enumerate(groups):
        if facts and group.required:
            assert len(domains(talk, facts, group.required[0], f"g{at}")) == 1
    if facts and whole:
        assert len(domains(talk, facts, whole[0])) == 1
    return bool(facts), has_room(groups, places, whole)


@each_seed(range(150), few=40, nightly=range(150, 3_000))
def test_a_task_group_of_one_size_is_placed_if_there_is_room(seed: int) -> None:
    random = Random(seed)
    size, count = random.randint(1, 3), random.randint(1, 6)
    group = Group((size,) * count, required=random.choice(("", "rack", "block")))
    was, could = check(random, groups=[group], whole=random.choice(("", "block")))
    assert was is could


@each_seed(range(3), few=1, nightly=range(3, 20))
def test_gangs_of_several_sizes_and_groups_are_seldom_missed(seed: int) -> None:
    """What is placed is possible; of what is possible nine of ten are placed, on clusters that are nearly full."""
    random = Random(seed)
    was_and_could = [
        check(random, groups=some_groups(random, sizes=(1, 2, 3)), whole=random.choice(("", "", "block")))
        for _ in range(450)
    ]
    assert all(could for was, could in was_and_could if was), "placed without room"
    possible = [was for was, could in was_and_could if could]
    assert len(possible) > 10
    assert sum(possible) >= 0.9 * len(possible)


@each_seed(range(3), few=1, nightly=range(3, 30))
def test_a_preferred_level_means_hardly_more_domains_than_necessary(seed: int) -> None:
    """With members of one size no more than the fewest, with several sizes at most a tenth more on average."""
    random = Random(seed)
    ratios = []
    for number in range(60):
        places = a_cluster(random)
        sizes = (random.randint(1, 3),) if number % 2 else (1, 2, 3)
        group = Group(tuple(random.choice(sizes) for _ in range(random.randint(2, 6))), preferred="rack")
        talk = talk_about(places)
        facts, least = placed(talk, [group]), fewest(group, places)
        assert bool(facts) is (least is not None) or len(sizes) > 1
        if facts and least is not None:
            ratio = len(domains(talk, facts, "r")) / least
            assert ratio == 1 or len(sizes) > 1
            ratios.append(ratio)
    assert len(ratios) > 10
    assert mean(ratios) <= 1.1


@each_seed(range(60), few=20, nightly=range(60, 1_000))
def test_members_get_the_nodes_that_they_would_get_one_after_the_other(seed: int) -> None:
    random = Random(seed)
    order = random.choice((NodeOrder.FAIR, NodeOrder.BINPACKING))
    places, sizes = a_cluster(random), [random.randint(1, 3)] * random.randint(1, 6)
    together = placed(talk_about(places, order), [Group(tuple(sizes))])
    if together:
        alone = talk_about(places, order)
        alone.asks(*[an_ask(f"a{at}", size) for at, size in enumerate(sizes)])
        facts = of(Allocated, alone.schedule())
        assert [one.node_id for one in facts] == [one.node_id for one in together]
