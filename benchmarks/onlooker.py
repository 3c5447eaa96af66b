"""Reads a daemon all the time: its metrics every second, as Prometheus does, and dumps of its state.

It runs as a process of its own, so that what is measured is what its requests cost the daemon.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict

import click
import httpx
import uvloop

from benchmarks.measurement import Looks, WrongResult
from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc
from schedulerd.client.channel import open_channel

SCRAPE_EVERY_S = 1.0
TIMEOUT_S = 30.0
LOOKS_MIN = 3
"""Of each kind: with less, nothing can be said about them."""


@click.command()
@click.argument("target")
@click.argument("metrics_url")
def main(target: str, metrics_url: str) -> None:
    """Looks until standard input ends, and prints what it did; exits with 1 if that was too little."""
    looks = uvloop.run(_look(target, metrics_url))
    if min(looks.scrapes, looks.dumps) < LOOKS_MIN:
        raise click.ClickException(f"there was time for {looks.scrapes} scrapes and {looks.dumps} dumps only")
    click.echo(json.dumps(asdict(looks)))


async def _look(target: str, metrics_url: str) -> Looks:
    end = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as http, open_channel(target, None) as channel:
        admin = admin_pb2_grpc.AdminStub(channel)
        await _dump(admin)
        click.echo("at work")
        async with asyncio.TaskGroup() as both:
            scrapes = both.create_task(_scrape_until(end, http, metrics_url))
            dumps = both.create_task(_dump_until(end, admin))
    scrapes_s, dumps_s = scrapes.result(), dumps.result()
    return Looks(len(scrapes_s), len(dumps_s), max(scrapes_s, default=0.0), max(dumps_s, default=0.0))


async def _scrape_until(end: asyncio.Task[str], http: httpx.AsyncClient, url: str) -> list[float]:
    """Seconds that each scrape took."""
    took_s = []
    while not end.done():
        started_s = time.perf_counter()
        (await http.get(url)).raise_for_status()
        took_s.append(time.perf_counter() - started_s)
        await asyncio.wait([end], timeout=max(0.0, SCRAPE_EVERY_S - took_s[-1]))
    return took_s


async def _dump_until(end: asyncio.Task[str], admin: admin_pb2_grpc.AdminAsyncStub) -> list[float]:
    """Seconds that each dump took."""
    took_s = []
    while not end.done():
        started_s = time.perf_counter()
        await _dump(admin)
        took_s.append(time.perf_counter() - started_s)
    return took_s


async def _dump(admin: admin_pb2_grpc.AdminAsyncStub) -> None:
    answer = await admin.GetStateDump(admin_pb2.GetStateDumpRequest(), timeout=TIMEOUT_S)
    if not answer.state:
        raise WrongResult("a dump of the daemon's state was empty")


if __name__ == "__main__":
    main()
