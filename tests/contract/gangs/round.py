"""One round: gangs until all are replaced, with faults on the way, and the result."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.gangs.api_server import ApiServer
from tests.contract.gangs.cable import Cable
from tests.contract.gangs.faults import ENDS_DAEMON, ENDS_RM, Fault, FaultKind
from tests.contract.gangs.resource_manager import ORDERS, REGISTER_TIMEOUT_S
from tests.contract.gangs.result import result
from tests.contract.gangs.truth import Plan, Progress, Truth

CHECKOUT = Path(__file__).parents[3]
LOG_TAIL_LINES = 20
NOTICED_S, GIVEN_UP_S = 10.0, 45.0
"""Standing still for less than the first goes unnoticed, for the second everybody has given the connection up: the
client asks for a sign of life after 20 s and waits for 10, the daemon after 30 and waits for 10; both ask earlier, to
measure the connection, when there was much to send."""


@dataclass(frozen=True, slots=True)
class Script:
    """A round to be played."""

    plan: Plan
    faults: Sequence[Fault] = ()
    writes_max: int = 1
    """How much a resource manager does at a time: some work pod by pod, some gather."""
    seed: int = 1
    """For the order in which each resource manager reports."""
    limit_s: float = 60.0
    daemon: str = "schedulerd"
    """The module to run."""
    pause_s: float = 0.5
    """How long who is to stand still does so."""


@dataclass(slots=True)
class Outcome:
    """What a round did, and what was wrong at its end."""

    faults: list[tuple[Fault, Progress]] = field(default_factory=list)
    """With how far it was then."""
    checked: int = 0
    """Allocations that were compared with the truth in the end."""
    problems: list[str] = field(default_factory=list)


async def play(script: Script) -> Outcome:
    """Plays one round; what goes wrong is in the outcome."""
    truth, outcome = Truth(script.plan), Outcome()
    with contextlib.ExitStack() as processes:
        async with Cable() as cable:
            async with ApiServer(truth) as api:
                stage = _Stage(script, api, cable, processes)
                try:
                    async with asyncio.timeout(script.limit_s):
                        outcome.problems += await _disturbed(stage, truth, outcome)
                except TimeoutError:
                    outcome.problems.append(f"not done after {script.limit_s:g} s: {truth.progress()}")
                if outcome.problems:
                    outcome.problems.append(f"the daemon's log ends with\n{stage.log_tail()}")
                    await stage.abandon()
                    return outcome
            # The API server has gone, which ends the resource manager.
            outcome.problems += await stage.end()
        outcome.problems += stage.miscounts()
        outcome.checked = len(list(truth.bound()))
    return outcome


async def _disturbed(stage: _Stage, truth: Truth, outcome: Outcome) -> list[str]:
    """Lets everything happen; what was wrong when all was done, or before."""
    for fault in stage.script.faults:
        if not await stage.act(fault):
            break
        outcome.faults.append((fault, truth.progress()))
    else:
        await stage.act(None)
    return truth.problems or await result(stage.url, truth)


class _Stage:
    """The processes of a round."""

    def __init__(self, script: Script, api: ApiServer, cable: Cable, processes: contextlib.ExitStack) -> None:
        self.script = script
        self._api = api
        self._cable = cable
        self._processes = processes
        self._choose = random.Random(script.seed)
        self._struck = asyncio.Event()
        self._daemon: DaemonProcess | None = None
        self._rm: asyncio.subprocess.Process | None = None
        self._rms_started = 0
        self._losses = 0
        """How often the scheduler was, or may have been, lost."""

    @property
    def url(self) -> str:
        """Of the daemon's HTTP side."""
        assert self._daemon is not None
        return self._daemon.url

    async def act(self, fault: Fault | None) -> bool:
        """Starts what does not run, and lets it run until the fault is over, or until all is done.

        False if it has failed before. A resource manager is not disturbed before it has begun.
        """
        self._struck.clear()
        await self._start()
        assert self._rm is not None
        ends = [self._struck.wait(), self._api.settled.wait(), self._api.failed.wait(), self._rm.wait()]
        waits = [asyncio.ensure_future(end) for end in ends]
        lurker = asyncio.create_task(self._lurk(fault)) if fault is not None else None
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*waits, lurker):
                if task is not None:
                    task.cancel()
            self._cable.disarm()
        if fault is None or self._api.failed.is_set():
            return False
        if not self._struck.is_set():
            if not self._api.settled.is_set():
                return False
            self._strike(fault.kind)
        await self._get_over(fault.kind)
        return True

    def miscounts(self) -> list[str]:
        """Beginnings of resource managers that nothing explains: in a process of their own, or when a daemon ended."""
        problems = []
        if self._api.started != self._rms_started:
            problems.append(f"{self._rms_started} resource managers were started, and {self._api.started} began")
        # One that has not found the daemon yet when that ends has nothing to lose.
        if self._api.lost > self._losses:
            problems.append(f"the scheduler was lost {self._api.lost} times, and should have been {self._losses} times")
        return problems

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

    async def _start(self) -> None:
        if self._daemon is None:
            self._daemon = DaemonProcess("--stop-at-input-end", module=self.script.daemon)
            await asyncio.to_thread(self._processes.enter_context, self._daemon)
        if self._rm is None:
            self._rm = await asyncio.create_subprocess_exec(
                *(sys.executable, "-W", "error", "-m", "tests.contract.gangs.resource_manager"),
                *(self._cable.target, str(self._api.port), json.dumps(asdict(self.script.plan))),
                *(self._choose.choice(ORDERS), str(self.script.writes_max)),
                cwd=CHECKOUT,
            )
            self._rms_started += 1
        self._cable.port = int(self._daemon.target.rpartition(":")[2])

    async def _lurk(self, fault: Fault) -> None:
        await self._api.reach(fault.after_changes, self._rms_started)
        self._cable.after(fault.then_bytes, partial(self._strike, fault.kind))

    def _strike(self, kind: FaultKind) -> None:
        assert self._rm is not None
        assert self._daemon is not None
        self._struck.set()
        if kind in ENDS_RM | ENDS_DAEMON:
            self._cable.port = None
        if kind in ENDS_RM | ENDS_DAEMON or self.script.pause_s >= GIVEN_UP_S:
            self._api.part()
            self._losses += self._losses_by(kind)
        match kind:
            case FaultKind.RM_KILLED:
                self._rm.kill()
                self._cable.disconnect()
            case FaultKind.DAEMON_KILLED:
                self._daemon.signal(signal.SIGKILL)
                self._cable.disconnect()
            case FaultKind.DAEMON_TERMINATED:
                self._daemon.signal(signal.SIGTERM)
            case FaultKind.RM_PAUSED:
                self._rm.send_signal(signal.SIGSTOP)
            case FaultKind.DAEMON_PAUSED:
                self._daemon.signal(signal.SIGSTOP)

    def _losses_by(self, kind: FaultKind) -> int:
        """How often a resource manager may lose the scheduler by this."""
        if kind in ENDS_RM:
            return 0
        if kind in ENDS_DAEMON:
            return 1
        # And once more each time when it registers and gets no answer.
        return 1 + int(self.script.pause_s // REGISTER_TIMEOUT_S)

    async def _get_over(self, kind: FaultKind) -> None:
        """Returns when who was to end has ended, or who was to stand still goes on."""
        assert self._rm is not None
        assert self._daemon is not None
        if kind in ENDS_RM:
            await self._rm.wait()
            self._rm = None
        elif kind in ENDS_DAEMON:
            status = await asyncio.to_thread(self._daemon.wait)
            if kind is FaultKind.DAEMON_TERMINATED and status:
                raise AssertionError(f"told to stop, the daemon ended with exit code {status}\n{self.log_tail()}")
            self._daemon = None
        else:
            await asyncio.sleep(self.script.pause_s)
            self._rm.send_signal(signal.SIGCONT)
            self._daemon.signal(signal.SIGCONT)
