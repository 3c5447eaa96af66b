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
from pathlib import Path

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.gangs.api_server import ApiServer
from tests.contract.gangs.cable import Cable
from tests.contract.gangs.resource_manager import ORDERS
from tests.contract.gangs.truth import Plan, Progress, Truth
from tests.contract.gangs.verdict import verdict

CHECKOUT = Path(__file__).parents[3]
LOG_TAIL_LINES = 20


class Victim(StrEnum):
    RESOURCE_MANAGER = "resource manager"
    DAEMON = "daemon"


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL, when so many bytes have passed since the round began or the last kill was."""

    victim: Victim
    after_bytes: int


@dataclass(slots=True)
class Outcome:
    """What a round did, and what was wrong at its end."""

    kills: list[tuple[Kill, Progress]] = field(default_factory=list)
    """With how far it was then."""
    bytes_passed: int = 0
    """Since the last kill."""
    problems: list[str] = field(default_factory=list)


def random_kills(victims: Sequence[Victim], bytes_max: int, seed: int) -> list[Kill]:
    """Each of them after up to so many bytes."""
    choose = random.Random(seed)
    return [Kill(victim, choose.randint(1, bytes_max)) for victim in victims]


async def play(plan: Plan, kills: Sequence[Kill], *, seed: int, limit_s: float, daemon: str = "schedulerd") -> Outcome:
    """Plays one round in at most `limit_s`; what goes wrong is in the outcome. `daemon` is the module to run."""
    truth, outcome = Truth(plan, seed), Outcome()
    with contextlib.ExitStack() as processes:
        async with ApiServer(truth) as api, Cable() as cable:
            stage = _Stage(plan, api, cable, processes, random.Random(seed), daemon)
            try:
                async with asyncio.timeout(limit_s):
                    for kill in (*kills, None):
                        if not await stage.act(kill) or kill is None:
                            break
                        outcome.kills.append((kill, truth.progress()))
                    outcome.bytes_passed = cable.bytes_passed
                    outcome.problems += truth.problems or await verdict(stage.url, truth)
            except TimeoutError:
                outcome.problems.append(f"not done after {limit_s:g} s: {truth.progress()}")
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

    def __init__(
        self,
        plan: Plan,
        api: ApiServer,
        cable: Cable,
        processes: contextlib.ExitStack,
        choose: random.Random,
        daemon_module: str,
    ) -> None:
        self._plan = plan
        self._api = api
        self._cable = cable
        self._processes = processes
        self._choose = choose
        self._daemon_module = daemon_module
        self._cut = asyncio.Event()
        self._daemon: DaemonProcess | None = None
        self._rm: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Of the daemon's HTTP side."""
        assert self._daemon is not None
        return self._daemon.url

    async def act(self, kill: Kill | None) -> bool:
        """Starts what does not run, and lets it run until the kill (True) or until it is done or has failed (False)."""
        self._cut.clear()
        self._cable.cut_after(None if kill is None else kill.after_bytes, lambda: self._kill(kill))
        if self._daemon is None:
            self._daemon = DaemonProcess("--stop-at-input-end", module=self._daemon_module)
            await asyncio.to_thread(self._processes.enter_context, self._daemon)
            self._cable.port = int(self._daemon.target.rpartition(":")[2])
        if self._rm is None:
            self._rm = await self._start_resource_manager()
        ends = [self._cut.wait(), self._api.settled.wait(), self._api.failed.wait(), self._rm.wait()]
        waits = [asyncio.ensure_future(end) for end in ends]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
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
            *(self._cable.target, str(self._api.port), json.dumps(asdict(self._plan)), self._choose.choice(ORDERS)),
            cwd=CHECKOUT,
        )

    def _kill(self, kill: Kill | None) -> None:
        assert kill is not None
        assert self._rm is not None
        assert self._daemon is not None
        self._cut.set()
        if kill.victim is Victim.DAEMON:
            self._cable.port = None
            self._daemon.signal(signal.SIGKILL)
        else:
            self._rm.kill()
