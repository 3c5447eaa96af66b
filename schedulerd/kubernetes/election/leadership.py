"""The lease as the shim sees it: kept by a thread with an event loop, a client and connections of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from schedulerd.kubernetes.api.transport import Transport
from schedulerd.kubernetes.election.elector import Elector, LeaseTimes, Standing
from schedulerd.kubernetes.election.keeper import RESULTS, LeaseKeeper, LeaseLost, LeaseName, boot_time

LOG = logging.getLogger(__name__)

BEAT_SECONDS = 0.5
STUCK_SECONDS = 5.0
"""A shim whose event loop has not turned for so long renews its lease no longer."""
RELEASE_SECONDS = 2.0
"""For the lease to be given back, when the process ends."""
IDENTITY_CHARACTERS_MAX = 253


def identity(name: str) -> str:
    """Of this process: a name that people know, and something that no other process has."""
    suffix = f"_{uuid.uuid4()}"
    return name[: IDENTITY_CHARACTERS_MAX - len(suffix)] + suffix


class Leadership:
    """A context, to be made and used on the loop of the shim. `seconds_left` is the gate of all its writes."""

    def __init__(
        self,
        open_transport: Callable[[], Transport],
        name: LeaseName,
        identity: str,
        times: LeaseTimes | None = None,
        *,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        """`open_transport` is called on the thread's loop. `clock` counts seconds, never runs backwards, and runs while
        the machine sleeps."""
        self.name = name
        self._open_transport = open_transport
        self._elector = Elector(identity, times)
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._theirs: asyncio.AbstractEventLoop | None = None
        """The thread's loop, while it runs."""
        self._keeper: LeaseKeeper | None = None
        self._is_ready = threading.Event()
        self._beat_s = clock()
        self._beating: asyncio.Task[None] | None = None
        self._elected: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()
        for future in (self._elected, self._over):
            future.add_done_callback(_seen)
        self._is_releasing = False

    async def __aenter__(self) -> Self:
        self._beating = asyncio.create_task(self._beat())
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.release()
        if self._beating is not None:
            self._beating.cancel()

    @property
    def identity(self) -> str:
        return self._elector.identity

    @property
    def leader(self) -> str:
        """Identity of the leader, as far as is known; empty if there is none."""
        return self._elector.leader

    @property
    def leader_name(self) -> str:
        """What people call the leader, which is its pod; empty if there is none."""
        return self.leader.rpartition("_")[0] or self.leader

    @property
    def is_leader(self) -> bool:
        return self.seconds_left() > 0.0

    @property
    def transitions(self) -> int:
        """How often the lease has changed its holder."""
        return self._elector.transitions

    @property
    def renewals(self) -> Mapping[str, int]:
        """Attempts to take or renew the lease, by result."""
        return {result: self._keeper.renewals[result] if self._keeper is not None else 0 for result in RESULTS}

    @property
    def lease_uid(self) -> str:
        """Of the object, for events about it."""
        metadata = self._keeper.metadata if self._keeper is not None else None
        return metadata.uid if metadata is not None else ""

    def seconds_left(self) -> float:
        """For how long from now on a write may take effect; 0 or less: it must not leave."""
        return 0.0 if self._is_releasing else self._elector.seconds_left(self._clock())

    def may_lead(self, is_able: bool) -> None:
        """Whether a standby takes the lease when it can; at first it does not."""
        self._tell(lambda keeper: keeper.may_lead(is_able))

    async def elected(self) -> None:
        """Returns when this process leads. Raises as `lost` does."""
        await asyncio.wait([self._elected, self._over], return_when=asyncio.FIRST_COMPLETED)
        if not self._elected.done():
            self._over.result()
        self._elected.result()

    async def lost(self) -> None:
        """Returns when this process leads no longer because it was told to. Raises `LeaseLost` if it has lost the
        lease, and whatever the thread has failed with."""
        await asyncio.shield(self._over)

    async def release(self) -> None:
        """Nothing may leave from now on; the lease is free at once if the API server can be reached."""
        if not self._thread.is_alive():
            return
        self._is_releasing = True
        self._tell(lambda keeper: keeper.release())
        await asyncio.wait([self._over], timeout=RELEASE_SECONDS)

    def _tell(self, what: Callable[[LeaseKeeper], None]) -> None:
        """Calls on the thread's loop."""
        self._is_ready.wait()
        loop, keeper = self._theirs, self._keeper
        if loop is not None and keeper is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(what, keeper)

    async def _beat(self) -> None:
        """Each of the two loops looks after the other one."""
        while True:
            self._beat_s = self._clock()
            if self._elected.done() and not self._is_releasing and self.seconds_left() <= 0.0:
                elector = self._elector  # whose thread may be the one that is stuck
                self._ended(LeaseLost(elector.why_over or f"no renewal for {elector.times.renew_deadline_s:g} s"))
            await asyncio.sleep(BEAT_SECONDS)

    def _is_stuck(self, now_s: float) -> bool:
        return now_s - self._beat_s > STUCK_SECONDS

    def _run(self) -> None:
        """The thread."""
        error: BaseException | None = None
        try:
            asyncio.run(self._keep())
        except BaseException as raised:  # noqa: BLE001 - the shim's loop raises it
            error = raised
        finally:
            self._is_ready.set()
            self._notify(lambda: self._ended(error))

    async def _keep(self) -> None:
        transport = self._open_transport()
        try:
            self._keeper = LeaseKeeper(
                transport,
                self.name,
                self._elector,
                clock=self._clock,
                stuck=self._is_stuck,
                changed=lambda: self._notify(self._look),
            )
            self._theirs = asyncio.get_running_loop()
            self._is_ready.set()
            await self._keeper.run()
        finally:
            await transport.close()

    def _notify(self, what: Callable[[], None]) -> None:
        """Calls on the shim's loop, if that is still there."""
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:
            LOG.debug("the event loop of the shim has ended before the lease")

    def _look(self) -> None:
        if self._elector.standing is Standing.LEADER and not self._elected.done():
            self._elected.set_result(None)
        elif self._elector.standing is Standing.OVER and not self._is_releasing:
            self._ended(None)

    def _ended(self, error: BaseException | None) -> None:
        if self._over.done():
            return
        if error is not None:
            self._over.set_exception(error)
        elif self._is_releasing:
            self._over.set_result(None)
        else:
            self._over.set_exception(LeaseLost(self._elector.why_over))


def _seen(future: asyncio.Future[None]) -> None:
    """Nobody need wait for it."""
    if not future.cancelled():
        future.exception()
