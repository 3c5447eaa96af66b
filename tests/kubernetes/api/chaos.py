"""Random days of a cluster with a bad network, for watches and writes together, and what has to hold after each."""

from __future__ import annotations

import asyncio
import random

from schedulerd.kubernetes.api import Outcome, Result, WatchSettings
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.api.writes import Bind, Delete
from tests.kubernetes.api.world import World, pause

RATES = {
    "refuse": 0.05,
    "cut": 0.05,
    "lose": 0.05,
    "halve": 0.03,
    "fail_after": 0.03,
    "hang": 0.01,
    "hang_after": 0.01,
    "cut_watch": 0.2,
    "end_watch": 0.1,
    "stall_watch": 0.05,
}
STEPS = 150


async def day(seed: int, *, watch_list: bool) -> None:
    """Fails if anything that must hold does not."""
    dice = random.Random(seed)
    async with World() as world:
        world.cluster.server.watch_list = watch_list
        world.cluster.operations.checks_binding_uid = seed % 2 == 1
        world.cluster.server.expires_by_line = dice.random() < 0.5
        world.cluster.server.watch_lines_max = dice.choice((5, 1_000))
        world.cluster.faults.draw(random.Random(seed + 1), RATES)
        settings = WatchSettings(page_objects=3, watch_s=(20.0, 60.0), watch_list=watch_list)
        pods = world.watch(settings=settings, random=random.Random(seed + 2).random)
        pool = world.pool(random=random.Random(seed + 3).random)
        wanted: dict[str, tuple[str, asyncio.Future[Outcome]]] = {}
        for step in range(STEPS):
            names = [name for _, name in world.stored()]
            action = dice.random()
            if action < 0.45 or not names:
                name = f"p{dice.randrange(30)}"
                if name not in names:
                    world.cluster.pod(name)
            elif action < 0.6:
                name = dice.choice(names)
                pod = world.cluster.get(r.PODS, name)
                assert pod is not None
                uid = pod["metadata"]["uid"]
                if uid not in wanted:
                    node = f"n{step}"
                    wanted[uid] = node, pool.submit(Bind("default", name, uid, node))
            elif action < 0.8:
                name = dice.choice(names)
                pod = world.cluster.get(r.PODS, name)
                assert pod is not None
                pool.submit(Delete(r.PODS, "default", name, pod["metadata"]["uid"]))
            elif action < 0.9:
                world.cluster.kubelet.finish_all()
            elif action < 0.95:
                world.cluster.store.compact()
            else:
                await world.cluster.stop()
                await pause(dice.uniform(0.0, 20.0))
                await world.cluster.start()
            await pause(dice.choice((0.0, 0.01, 1.0, 10.0)))
        world.cluster.faults.stop()
        await pause(600.0)
        assert pods.state() == world.stored()
        for uid, (node, done) in wanted.items():
            await _check(world, uid, node, await done)


async def _check(world: World, uid: str, node: str, outcome: Outcome) -> None:
    """What a bind said agrees with what every version of the pod has had.

    An old server does not compare the UID: it binds the pod that has the name now, and the bind is done as well.
    """
    pods = [change.object for change in world.history if change.kind.plural == "pods"]
    nodes = {pod["spec"].get("nodeName") for pod in pods if pod["metadata"]["uid"] == uid}
    if outcome.result is Result.DONE and outcome.code and not world.cluster.operations.checks_binding_uid:
        names = {pod["metadata"]["name"] for pod in pods if pod["metadata"]["uid"] == uid}
        nodes |= {pod["spec"].get("nodeName") for pod in pods if pod["metadata"]["name"] in names}
    match outcome.result:
        case Result.DONE:
            assert node in nodes, f"said to be on {node}, and was on {nodes}"
        case Result.FAILED | Result.REFUSED | Result.CONFLICT | Result.NOT_LEADER:
            assert node not in nodes, f"said to be {outcome.result}, and was on {nodes}"
        case _:
            assert nodes <= {None, node}
