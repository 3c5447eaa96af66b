"""What people who watch cost: workload `g` with 50 open streams and a scrape of the metrics each second, in pairs.

    python -m benchmarks.viewers [--pairs 7] [--stream PATH] [--nodes 5000] [--singles 10000]

Each pair is two runs on daemons of their own, one without viewers and one with them, in turn first. What counts is the
daemon's time on the processor for each placement (at most 5 % more), and the 99th percentile of single asks (at most
1.5 times). The streams are those of the web page if the daemon serves one, else those of `/api/v1/events`; a stream
that ends is opened again, as a browser does.

The daemon has a processor of its own: beside it, the viewers' own work would slow it down (a process that does nothing
but compute made its seconds 3 to 7 % more), and what is asked here is what the daemon does for them.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import click
import httpx
import uvloop

from benchmarks.companion import Companion
from benchmarks.daemon_looks import cpu_seconds_of
from benchmarks.measurement import WrongResult
from benchmarks.messages import allocation_request, application_request, node_request
from benchmarks.resource_manager import BenchmarkRM
from benchmarks.workload import RM_ID, Workload
from benchmarks.workloads import e
from schedulerd.client import Client
from schedulerd.simulate.demo import Daemon, free_port

VIEWERS = 50
SCRAPE_SECONDS = 1.0
CPU_MAX, P99_MAX = 1.05, 1.5
STREAM = "/api/v1/events/stream"
_PAGE_STREAM = re.compile(r"/ui/stream\?[^\"'<> ]+")
RUN_SECONDS_MAX = 900.0


class Run(NamedTuple):
    """One run: daemon's milliseconds of the processor for each placement, and of the clock for a single ask."""

    cpu_ms: float
    p50_ms: float
    p99_ms: float
    said: str
    """What the viewers saw."""


def run(workload: Workload, stream: str | None) -> Run:
    """Without viewers if `stream` is None; '' chooses the stream. Raises `WrongResult`."""
    with tempfile.TemporaryDirectory(prefix="schedulerd-benchmark-") as directory:
        queue_file = Path(directory, "queues.yaml")
        queue_file.write_text(workload.queue_file, encoding="utf-8")
        processors = sorted(os.sched_getaffinity(0))
        try:
            os.sched_setaffinity(0, processors[-1:])  # a new process takes it over
            with Daemon(queue_file, grpc_port=free_port(), http_port=free_port()) as daemon:
                os.sched_setaffinity(0, processors[:-1])
                daemon.wait_until_ready()
                return uvloop.run(_run(workload, daemon, stream))
        finally:
            os.sched_setaffinity(0, processors)


async def _run(workload: Workload, daemon: Daemon, stream: str | None) -> Run:
    rm = BenchmarkRM()
    async with (
        asyncio.timeout(RUN_SECONDS_MAX),
        Client(daemon.target, rm, rm_id=RM_ID, reconnect_timeout_s=0, resync=False),
    ):
        await rm.register_nodes([node_request(workload)])
        await rm.submit_applications(application_request(workload.applications))
        requests = [allocation_request(asks) for asks in workload.requests(workload.asks)]
        await rm.place(requests, len(workload.asks))
        singles = [allocation_request([ask]) for ask in workload.single_asks]
        url = daemon.metrics_url.removesuffix("/metrics")
        viewers = Companion("benchmarks.viewers", "--watch", url, "--stream", stream) if stream is not None else None
        with viewers or nullcontext():
            before_s = cpu_seconds_of(daemon)
            took_s = [await rm.place([single], 1) for single in singles]
            cpu_s = cpu_seconds_of(daemon) - before_s
    last = statistics.quantiles(took_s, n=100)[98]
    said = viewers.said.strip() if viewers is not None else ""
    return Run(cpu_s / len(singles) * 1e3, statistics.median(took_s) * 1e3, last * 1e3, said)


async def watch(url: str, stream: str) -> None:
    """The viewers, as a process of their own: watches until standard input ends, then prints what was seen."""
    end = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    limits = httpx.Limits(max_connections=VIEWERS + 1)
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False, limits=limits) as http:
        chosen = stream or await _stream_of_page(http) or STREAM
        seen = [0] * VIEWERS
        tasks = [asyncio.create_task(_view(http, chosen, seen, at)) for at in range(VIEWERS)]
        await asyncio.sleep(SCRAPE_SECONDS)
        print("at work", flush=True)
        scrapes = 0
        while not end.done():
            (await http.get("/metrics")).raise_for_status()
            scrapes += 1
            await asyncio.wait([end], timeout=SCRAPE_SECONDS)
        for one in tasks:
            one.cancel()
        print(json.dumps({"stream": chosen, "viewers": VIEWERS, "bytes_each": min(seen), "scrapes": scrapes}))
        if not min(seen):
            raise WrongResult(f"a viewer of {chosen} saw nothing")


async def _stream_of_page(http: httpx.AsyncClient) -> str:
    """The stream that the overview of the web page opens; '' if the daemon has no such page."""
    answer = await http.get("/ui/")
    found = _PAGE_STREAM.search(html.unescape(answer.text)) if answer.status_code == 200 else None
    return found[0] if found is not None else ""


async def _view(http: httpx.AsyncClient, path: str, seen: list[int], at: int) -> None:
    while True:
        async with http.stream("GET", path) as response:
            response.raise_for_status()
            async for piece in _pieces(response):
                seen[at] += len(piece)


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    async for piece in response.aiter_raw():
        yield piece


@click.command()
@click.option("--pairs", default=7, type=click.IntRange(1), show_default=True)
@click.option("--stream", default="", help="Path of the streams, such as /ui/stream?page=overview.")
@click.option("--nodes", default=5_000, show_default=True)
@click.option("--singles", default=10_000, show_default=True, help="Single asks of each run.")
@click.option("--watch", "url", default="", hidden=True)
def main(pairs: int, stream: str, nodes: int, singles: int, url: str) -> None:
    """Measure what viewers cost; exit code 1 says that it is too much."""
    if url:
        uvloop.run(watch(url, stream))
        return
    if len(os.sched_getaffinity(0)) < 2:
        raise click.UsageError("two processors are needed: one for the daemon, one for all others")
    if singles > 2 * nodes:
        raise click.UsageError(f"--singles is {singles}; {nodes} nodes have room for {2 * nodes} after they are filled")
    workload = e(nodes=nodes, singles=singles)
    cpu, last = [], []
    click.echo(f"{'':>12} {'CPU ms':>8} {'p50 ms':>8} {'p99 ms':>8}")
    for number in range(pairs):
        found: dict[bool, Run] = {}
        for watched in (False, True) if number % 2 == 0 else (True, False):
            one = found[watched] = run(workload, stream if watched else None)
            name = "viewers" if watched else "nobody"
            click.echo(f"{name:>12} {one.cpu_ms:8.4f} {one.p50_ms:8.3f} {one.p99_ms:8.3f}  {one.said}")
        cpu.append(found[True].cpu_ms / found[False].cpu_ms)
        last.append(found[True].p99_ms / found[False].p99_ms)
    cpu_more, last_more = statistics.median(cpu), statistics.median(last)
    click.echo(f"median of pairs: CPU {cpu_more:.3f} (at most {CPU_MAX}), p99 {last_more:.2f} (at most {P99_MAX})")
    if cpu_more > CPU_MAX or last_more > P99_MAX:
        raise click.ClickException("viewers cost too much")


if __name__ == "__main__":
    main()
