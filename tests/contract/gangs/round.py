"""One round: gangs until all are replaced, with processes killed on the way and started again, and the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.gangs.api_server import ApiServer
from tests.contract.gangs.cable import Cable
from tests.contract.gangs.resource_manager import ORDERS
from tests.contract.gangs.truth import Plan, Progress, Truth
from tests.contract.gangs.verdict import verdict

CHECKOUT = Path(__file__).parents[3]
LOG_TAIL_LINES = 20

LATEST = 0.6
"""When the last kill comes: so much of all that is to happen has happened. The last third are real pods that are bound,
for which all may have been said already: then no more bytes pass."""
THEN_BYTES_MAX = 400


class Victim(StrEnum):
    RESOURCE_MANAGER = "resource manager"
    DAEMON = "daemon"


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL, when so much has happened, and so many more bytes have passed: it may be in the middle of a message."""

    victim: Victim
    after_changes: int
    then_bytes: int


@dataclass(frozen=True, slots=True)
class Script:
    """A round to be played."""

    plan: Plan
    kills: Sequence[Kill] = ()
    writes_max: int = 1
    """How much a resource manager does at a time: some work pod by pod, some gather."""
    seed: int = 1
    """For the order in which each resource manager reports."""
    limit_s: float = 60.0
    daemon: str = "schedulerd"
    """The module to run."""


@dataclass(slots=True)
class Outcome:
    """What a round did, and what was wrong at its end."""

    kills: list[tuple[Kill, Progress]] = field(default_factory=list)
    """With how far it was then."""
    problems: list[str] = field(default_factory=list)


def random_kills(victims: Sequence[Victim], plan: Plan, seed: int) -> list[Kill]:
    """At random moments, in their order. What is left to do then takes more than the bytes until they come."""
    choose = random.Random(seed)
    moments = sorted(choose.randint(0, int(LATEST * plan.changes)) for _ in victims)
    return [
        Kill(victim, after_changes, choose.randint(1, THEN_BYTES_MAX))
        for victim, after_changes in zip(victims, moments, strict=True)
    ]


async def play(script: Script) -> Outcome:
    """Plays one round; what goes wrong is in the outcome."""
    truth, outcome = Truth(script.plan), Outcome()
    with contextlib.ExitStack() as processes:
        async with ApiServer(truth) as api, Cable() as cable:
            stage = _Stage(script, api, cable, processes)
            try:
                async with asyncio.timeout(script.limit_s):
                    for kill in (*script.kills, None):
                        if not await stage.act(kill, begun=1 + len(outcome.kills)) or kill is None:
                            break
                        outcome.kills.append((kill, truth.progress()))
                    outcome.problems += truth.problems or await verdict(stage.url, truth)
            except TimeoutError:
                outcome.problems.append(f"not done after {script.limit_s:g} s: {truth.progress()}")
            if outcome.problems:
                outcome.problems.append(f"the daemon's log ends with\n{stage.log_tail()}")
                await stage.abandon()
                return outcome
        # The API server has gone, which ends the resource manager.
        outcome.problems += await stage.end()
        begun = 1 + len(outcome.kills)
        if api.lists != begun:
            outcome.problems.append(f"the resource manager began {api.lists} times, and should have {begun}")
    return outcome


class _Stage:
    """The processes of a round."""

    def __init__(self, script: Script, api: ApiServer, cable: Cable, processes: contextlib.ExitStack) -> None:
        self._script = script
        self._api = api
        self._cable = cable
        self._processes = processes
        self._choose = random.Random(script.seed)
        self._cut = asyncio.Event()
        self._daemon: DaemonProcess | None = None
        self._rm: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Of the daemon's HTTP side."""
        assert self._daemon is not None
        return self._daemon.url

    async def act(self, kill: Kill | None, begun: int) -> bool:
        """Starts what does not run, and lets it run until the kill (True) or until it is done or has failed (False).

        The resource manager begins for the time `begun`, and is not killed before that.
        """
        self._cut.clear()
        if self._daemon is None:
            self._daemon = DaemonProcess("--stop-at-input-end", module=self._script.daemon)
            await asyncio.to_thread(self._processes.enter_context, self._daemon)
        if self._rm is None:
            self._rm = await self._start_resource_manager()
        self._cable.cut_after(None)
        self._cable.port = int(self._daemon.target.rpartition(":")[2])
        ends = [self._cut.wait(), self._api.settled.wait(), self._api.failed.wait(), self._rm.wait()]
        waits = [asyncio.ensure_future(end) for end in ends]
        lurker = asyncio.create_task(self._lurk(kill, begun)) if kill is not None else None
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*waits, lurker):
                if task is not None:
                    task.cancel()
        if not self._cut.is_set():
            return False
        if kill is not None and kill.victim is Victim.DAEMON:
            await asyncio.to_thread(self._daemon.wait)
            self._daemon = None
        else:
            await self._rm.wait()
            self._rm = None
        return True

    async def end(self) -> list[str]:
        """Waits for the resource manager to end, as there is nothing left to do; stops the daemon. What was wrong."""
        assert self._rm is not None
        assert self._daemon is not None
        problems = []
        async with asyncio.timeout(LIMIT_SECONDS):
            if status := await self._rm.wait():
                problems.append(f"the resource manager ended with exit code {status}")
        self._daemon.signal(signal.SIGTERM)
        if status := await asyncio.to_thread(self._daemon.wait):
            problems.append(f"the daemon ended with exit code {status}\n{self.log_tail()}")
        return problems

    async def abandon(self) -> None:
        """Ends the resource manager, whatever it does; the daemon ends with its context."""
        if self._rm is not None and self._rm.returncode is None:
            self._rm.kill()
            await self._rm.wait()

    def log_tail(self) -> str:
        return "" if self._daemon is None else "".join(self._daemon.lines[-LOG_TAIL_LINES:])

    async def _start_resource_manager(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-m", "tests.contract.gangs.resource_manager"),
            *(self._cable.target, str(self._api.port), json.dumps(asdict(self._script.plan))),
            *(self._choose.choice(ORDERS), str(self._script.writes_max)),
            cwd=CHECKOUT,
        )

    async def _lurk(self, kill: Kill, begun: int) -> None:
        await self._api.reach(kill.after_changes, begun)
        self._cable.cut_after(kill.then_bytes, partial(self._kill, kill.victim))

    def _kill(self, victim: Victim) -> None:
        assert self._rm is not None
        assert self._daemon is not None
        self._cut.set()
        self._cable.port = None
        if victim is Victim.DAEMON:
            self._daemon.signal(signal.SIGKILL)
        else:
            self._rm.kill()
