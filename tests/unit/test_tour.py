"""To follow one ask from its bytes to the response, a reader opens few modules, and ARCHITECTURE.md names them all.

The ask is one more of a running application, of a size that was asked for before: what happens to most pods. The real
decoder, owner, scheduler and encoder are run without sockets, and every module is noted of which a function is entered.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config import matches
from schedulerd.core.language.commands import (
    Command,
    ConnectResourceManager,
    NewApplication,
    NodeAction,
    NodeUpdate,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, Timeouts
from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.instant import Instant
from schedulerd.wire.decode import RequestDecoder
from schedulerd.wire.dialect import Dialect, Stream
from schedulerd.wire.encode import ResponseEncoder
from tests.instants import at
from tests.unit.daemon.fake_call import turns
from tests.unit.daemon.recording import NoStopwatch, registration

pytestmark = pytest.mark.interpreted

MODULES_MAX = 26
"""A reader opens each once. The same ask went through 43 before modules of one purpose were joined."""

ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"

SETUP: tuple[Command, ...] = (
    registration(),
    ConnectResourceManager("rm"),
    UpdateApplications("rm", [NewApplication("app-1", "root.a", user="u")]),
    UpdateNodes(
        "rm",
        [
            NodeUpdate("node-1", NodeAction.CREATE, capacity=Resources(vcore=1000, memory=1000)),
            NodeUpdate("node-2", NodeAction.CREATE, capacity=Resources(vcore=10, memory=10)),
        ],
    ),
)


class Tour:
    """Sends asks to an owner as bytes, and takes the responses as bytes."""

    def __init__(self) -> None:
        numbers = itertools.count(1)
        scheduler = Scheduler(Timeouts(), lambda: f"uuid-{next(numbers)}", matches)
        self.decoder = RequestDecoder()
        self.encoder = ResponseEncoder()
        self.encoder.set_dialect("rm", Dialect.V2023_06)
        self.owner = Owner(
            scheduler, [self._tell], NoStopwatch(), inbox_max=10, placements_max=20, clocks=lambda: at(SECOND_NS)
        )
        self.modules: set[str] = set()
        self._responses: asyncio.Queue[bytes] = asyncio.Queue()

    def _tell(self, facts: Sequence[Fact], now: Instant) -> None:
        self.encoder.add(facts, now)
        for response in self.encoder.drain():
            if response.stream is Stream.ALLOCATION:
                sys.setprofile(None)  # the ask is answered: what else the turn does is not of the tour
                self._responses.put_nowait(response.payload)

    async def begin(self) -> None:
        for command in SETUP:
            await (await self.owner.submit(command))

    async def ask(self, raw: bytes) -> bytes:
        """The response to an AllocationRequest, once something was allocated."""
        request = si_pb2.AllocationRequest.FromString(raw)
        for command in self.decoder.allocations(request, len(raw)):
            await self.owner.submit(command)
        return await self._responses.get()

    @contextmanager
    def taking_notes(self) -> Iterator[None]:
        """Notes the modules entered, until the response is there."""
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__") or ""
        is_generated = "_generated" in name or frame.f_code.co_filename == "<string>"  # by protoc, or by a dataclass
        if event == "call" and name.startswith("schedulerd.") and not is_generated:
            self.modules.add(name)


def request(key: str) -> bytes:
    one = si_pb2.Quantity(value=1)
    size = si_pb2.Resource(resources={"vcore": one, "memory": one})
    ask = si_pb2.AllocationAsk(allocationKey=key, applicationID="app-1", maxAllocations=1, resourceAsk=size)
    return si_pb2.AllocationRequest(rmID="rm", asks=[ask]).SerializeToString()


@pytest.fixture(scope="module")
def modules() -> set[str]:
    """The modules that an ask of a running application goes through."""
    tour = Tour()

    async def play() -> None:
        owner = asyncio.create_task(tour.owner.run())
        async with asyncio.timeout(10):
            await tour.begin()
            for key in ("pod-1", "pod-2"):  # with the first the application starts, with the second it runs
                await tour.ask(request(key))
            await turns()  # what the owner does after a response is done
            raw = request("pod-3")
            with tour.taking_notes():
                response = await tour.ask(raw)
        [allocation] = si_pb2.AllocationResponse.FromString(response).new
        assert (allocation.allocationKey, allocation.nodeID) == ("pod-3", "node-1")
        owner.cancel()

    asyncio.run(play())
    return tour.modules


def named_in_the_tour() -> list[str]:
    """The modules that the table of the tour names by their paths."""
    tour = re.search(r"^## One ask.*?(?=^## )", ARCHITECTURE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert tour is not None
    rows = [line for line in tour[0].splitlines() if line.startswith("|")]
    return [f"schedulerd.{path.replace('/', '.')}" for row in rows for path in re.findall(r"`([\w/]+)\.py`", row)]


def test_few_modules_are_to_be_opened(modules: set[str]) -> None:
    assert len(modules) <= MODULES_MAX, sorted(modules)


def test_the_architecture_names_each_of_them_once_and_no_others(modules: set[str]) -> None:
    assert sorted(named_in_the_tour()) == sorted(modules)
