"""How long each answer of the HTTP APIs holds the event loop, on a cluster with much waiting.

    python -m benchmarks.answers

100,000 asks, 5,000 nodes, 2,000 applications. A task goes round the loop all the time and reads the processor's time of
the thread each time round: the largest difference while a request is answered is how long the answer held the loop.
Time of the processor, so that other processes do not count. Exits with 1 if one held it for more than 5 ms.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from typing import Any

import uvloop
from starlette.types import ASGIApp, Message

from benchmarks.explanations import APPLICATIONS, ASKS_EACH, NODES, filled
from schedulerd.config import Settings, load_queue_file
from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.api.app import PREFIX, build_api
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.daemon.admin.http import api_mount
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.yunikorn.pacing import Pacer
from schedulerd.instant import Instant
from tests.rest.world import World
from tests.unit.core.builders import RM

HELD_SECONDS_MAX = 0.005
_HEADERS = [(b"host", b"localhost"), (b"content-type", b"application/json")]
ROUNDS = 3
"""Of each request; the least of the longest holds counts, because what else the process does only adds."""
P = "/ws/v1/partition/default"
QUEUE_FILE = b'partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: q0}]}]}]'
REQUESTS: tuple[tuple[str, str, str, bytes], ...] = (
    *(("GET", f"{PREFIX}/{name}", "limit=1000", b"") for name in ("queues", "applications", "asks", "nodes", "gangs")),
    *(("GET", f"{PREFIX}/{name}", "limit=1000", b"") for name in ("reservations", "preemptions", "users", "limits")),
    ("GET", f"{PREFIX}/asks", "limit=1000&sort=-id", b""),
    ("GET", f"{PREFIX}/asks", "limit=1000&pod=nothing", b""),
    ("GET", f"{PREFIX}/applications", "limit=1000&sort=-allocations", b""),
    ("GET", f"{PREFIX}/nodes", "limit=1000&sort=-allocations", b""),
    ("GET", f"{PREFIX}/nodes/n7", "", b""),
    ("GET", f"{PREFIX}/applications/a7", "", b""),
    ("GET", f"{PREFIX}/explain/ask", "application=a1999&ask=k49", b""),
    ("GET", f"{PREFIX}/explain/pod", "namespace=a&pod=b", b""),
    ("GET", f"{PREFIX}/explain/application", "application=a1999", b""),
    ("GET", f"{PREFIX}/explain/queue", "queue=root", b""),
    ("POST", f"{PREFIX}/whatif/fits", "", b'{"queue": "root.q0", "resources": {"vcore": 999000}}'),
    ("POST", f"{PREFIX}/config/validate", "", QUEUE_FILE),
    *(("GET", f"{P}/{name}", "", b"") for name in ("queues", "nodes", "applications/active", "usage/users")),
    ("GET", f"{P}/queue/root.q1/applications", "", b""),
    ("GET", f"{P}/application/a7", "", b""),
    ("GET", "/ws/v1/scheduler/healthcheck", "", b""),
    ("GET", "/ws/v1/scheduler/node-utilizations", "", b""),
    ("GET", "/ws/v1/fullstatedump", "", b""),
    ("GET", "/ws/v1/events/batch", "", b""),
)


class Monitor:
    """Goes round the loop, and remembers the longest way."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def run(self) -> None:
        last_s = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now_s = time.thread_time()
            self.longest_s = max(self.longest_s, now_s - last_s)
            last_s = time.thread_time()


def build(scheduler: Scheduler) -> World:
    """Both APIs over one scheduler, as the daemon has them."""
    world = World(Settings(http_bind="127.0.0.1:0", rest_items_max=1_000_000), pacer=Pacer())
    known = scheduler.cluster.resource_managers
    world.scheduler.cluster.resource_managers.update(known)

    read = load_queue_file(QUEUE_FILE.decode(), "benchmark")

    async def validate(_text: str, _source: str) -> Any:
        return read  # in the daemon another process reads it

    unused: Any = None
    access = Access(Settings(http_anonymous_view=True), None)
    queries = StateQueries(lambda _query: None)
    sources = ApiSources(
        world.scheduler,
        queries,
        world.feed,
        access,
        unused,
        validate,
        lambda: Instant(1_000, 1_700_000_000_000_000_000),
    )
    world.app.router.routes.insert(0, api_mount(build_api(sources)))
    return world


async def _answer(app: ASGIApp, method: str, path: str, query: str, body: bytes) -> tuple[int, int]:
    """Status of the answer and number of its bytes, which are not kept."""
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "root_path": "",
    }
    scope |= {"query_string": query.encode(), "headers": _HEADERS}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 9080)}
    status = size = 0
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()  # the client stays
        return messages.pop()

    async def send(message: Message) -> None:
        nonlocal status, size
        status = message.get("status", status)
        size += len(message.get("body", b""))

    await app(scope, receive, send)
    return status, size


async def measure() -> int:
    """Prints a table; returns how many requests held the loop for too long."""
    world = build(filled())
    gc.collect()
    gc.freeze()
    monitor = Monitor()
    running = asyncio.create_task(monitor.run())
    too_long = 0
    print(f"{NODES} nodes, {APPLICATIONS} applications, {APPLICATIONS * ASKS_EACH} asks of {RM}")
    print(f"{'held ms':>8} {'status':>6} {'kB':>8}  request")
    for method, path, query, body in REQUESTS:
        held_s = []
        for _ in range(ROUNDS):
            monitor.longest_s = 0.0
            status, size = await _answer(world.app, method, path, query, body)
            await asyncio.sleep(0)  # the monitor sees an answer that never let go too
            held_s.append(monitor.longest_s)
        found_s = min(held_s)
        too_long += found_s > HELD_SECONDS_MAX
        late = "  more than 5 ms" if found_s > HELD_SECONDS_MAX else ""
        shown = f"{method} {path}{'?' if query else ''}{query}"
        print(f"{found_s * 1e3:8.2f} {status:6} {size / 1e3:8.1f}  {shown}{late}", flush=True)
    running.cancel()
    return too_long


if __name__ == "__main__":
    sys.exit(1 if uvloop.run(measure()) else 0)
