"""A resource manager beside the one that is measured: it asks for pods at a steady pace, and gives them back at once.

It runs as a process of its own, so that what is measured is what its asks cost the daemon. Its pace does not depend on
how fast it is served: so the same work is there whether it has a say in where its pods run, and takes its time for it,
or has none.
"""

from __future__ import annotations

import asyncio
import sys

import click
import uvloop

from benchmarks.workload import GROUP, USER, Neighbour
from benchmarks.workloads import QUEUES_AB
from schedulerd.client import Allocation, Client, PredicatesCall, ResourceManager

PODS_AT_A_TIME = 20
PACE_S = 0.020
"""Between them: a thousand pods per second."""
THOUGHT_S = 0.020
"""What a result takes."""
NODES = 10
PATIENCE_S = 30.0
"""For the last pods to be placed."""


class Unasked(ResourceManager):
    """Takes what it gets."""

    def __init__(self) -> None:
        self.placed = 0
        self.changed = asyncio.Event()

    def on_allocated(self, allocation: Allocation) -> None:
        self.placed += 1
        self.changed.set()
        self.client.release(allocation)


class Asked(Unasked):
    """Has nothing against any node, after some thought."""

    async def predicates(self, call: PredicatesCall) -> None:
        await asyncio.sleep(THOUGHT_S)


@click.command()
@click.argument("target")
@click.argument("kind", type=click.Choice([one.value for one in Neighbour]))
def main(target: str, kind: str) -> None:
    """Works until standard input ends; says when its first pods are placed, and exits with 1 if some never are."""
    uvloop.run(_work(target, Asked() if kind == Neighbour.ASKED else Unasked()))


async def _work(target: str, rm: Unasked) -> None:
    end = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    async with Client(target, rm, rm_id="neighbour", config=QUEUES_AB, resync=False) as client:
        for number in range(NODES):
            await client.add_node(f"node-{number}", {"memory": 10_000, "vcore": 1_000})
        await client.add_application("app-1", "root.a", user=USER, groups=[GROUP])
        asked = 0
        while not end.done():
            for number in range(asked, asked + PODS_AT_A_TIME):
                client.ask("app-1", f"pod-{number}", {"memory": 10, "vcore": 1})
            asked += PODS_AT_A_TIME
            if asked == PODS_AT_A_TIME:
                await _until_placed(rm, asked)
                click.echo("at work")
            await asyncio.sleep(PACE_S)
        await _until_placed(rm, asked)


async def _until_placed(rm: Unasked, count: int) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while rm.placed < count:
                rm.changed.clear()
                await rm.changed.wait()
    except TimeoutError:
        raise click.ClickException(f"{rm.placed} of {count} pods were placed") from None


if __name__ == "__main__":
    main()
