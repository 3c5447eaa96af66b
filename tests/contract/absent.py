"""A resource manager under load that is away for a while, in the dialect of its choice; what it has heard in the end.

`python -m tests.contract.absent SECONDS...` plays it with real pauses and prints what came of it.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import grpc

from tests.contract.absent_rm import DIALECTS, Absent, Heard, speaking
from tests.contract.cable import Cable
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import Record, UpdateStream

PODS = 3_000
PODS_PER_MESSAGE = 100
SHORT_PODS = 400
"""So many are shown by one look at the state."""
SHORT_MS = 2_000
"""How long allocations may run that are to end while the RM is away: it has heard of all of them long before that."""

CONNECTION_SECONDS_MAX = 5
"""A connection that stands still for longer than about twice that is taken for dead, which is another story."""


class Runs(NamedTuple):
    """An allocation in somebody's books."""

    key: str
    uuid: str
    node_id: str


AGAIN = Heard(["again"], [])
"""What is heard after a resynchronisation by who asks for this one pod."""


def pods(count: int) -> list[str]:
    return [f"pod-{number:05}" for number in range(count)]


def flood(rm: Absent[Any], stream: UpdateStream[Any], count: int = PODS, timeout_ms: int = 0) -> None:
    """Sends so many asks, in many messages."""
    keys = pods(count)
    for first in range(0, count, PODS_PER_MESSAGE):
        stream.send(rm.asks(keys[first : first + PODS_PER_MESSAGE], timeout_ms))


def cable_pulled(cable: Cable, rm: Absent[Any], pause: Callable[[], None]) -> Heard:
    """The network stands still in the middle of a flood of placements, and then goes on."""
    rm.set_up()
    stream = rm.open()
    flood(rm, stream)
    got = [stream.next()]
    cable.pull()
    pause()
    cable.put_back()
    while len(rm.heard(got).placed) < PODS:
        got.append(stream.next())
    return rm.heard(got)


def until_nothing_is_sent(daemon: DaemonProcess) -> None:
    """What is being written when a stream is cancelled may have arrived, and comes again on the next one."""
    before, now = -1.0, daemon.metric("schedulerd_outbox_depth")
    while now != before:
        before, now = now, daemon.metric("schedulerd_outbox_depth")


def away_while_all_ends(daemon: DaemonProcess, rm: Absent[Any], pause: Callable[[], None]) -> tuple[list[str], Heard]:
    """There is no stream while the time of all allocations runs out: their UUIDs, and what is heard on the next one."""
    rm.set_up()
    stream = rm.open()
    flood(rm, stream, SHORT_PODS, SHORT_MS)
    got = stream.until(lambda got: len(rm.heard(got).placed) == SHORT_PODS)
    until_nothing_is_sent(daemon)
    stream.cancel()
    daemon.wait_for_event("resource manager changed", lambda line: line["state"] == "paused")
    pause()
    back = rm.open()
    rest = back.until(lambda more: len(rm.heard(more).ended) >= SHORT_PODS)
    return [one.UUID for one in rm.allocations(got)], rm.heard(rest)


def cut_off(cable: Cable, rm: Absent[Any]) -> Heard:
    """The connection breaks in the middle of a flood, and the RM comes back at once and asks for one more."""
    rm.set_up()
    stream = rm.open()
    flood(rm, stream)
    got = [stream.next()]
    cable.cut()
    got += stream.rest()[0]
    while "the last" not in rm.heard(got).placed:
        back = rm.open()
        back.send(rm.asks(["the last"]))
        # The channel may still have given this call to the connection that is breaking, and then it ends with that.
        with contextlib.suppress(AssertionError):
            while "the last" not in rm.heard(got).placed:
                got.append(back.next())
    return rm.heard(got)


def cut_off_again_and_again(
    daemon: DaemonProcess, cable: Cable, rm: Absent[Any], pause: Callable[[], None]
) -> tuple[list[str], Heard]:
    """The connection breaks in floods of asks, of placements and of endings: the UUIDs placed, and all it hears."""
    rm.set_up()
    got: list[Any] = []
    stream = rm.open()
    flood(rm, stream, timeout_ms=SHORT_MS)
    for enough in (1, PODS // 2, PODS + PODS // 2):
        while sum(map(len, rm.heard(got))) < enough:
            got.append(stream.next())
        cable.cut()
        got += stream.rest()[0]
        daemon.wait_for_event("resource manager changed", lambda line: line["state"] == "paused")
        pause()
        stream = rm.open()
    while sum(map(len, rm.heard(got))) < 2 * PODS:
        got.append(stream.next())
    return [one.UUID for one in rm.allocations(got)], rm.heard(got)


def away_for_too_long(daemon: DaemonProcess, rm: Absent[Any], pause: Callable[[], None]) -> Heard:
    """It leaves in the middle of a flood and is stopped: it is told so once, reports what runs, and goes on."""
    rm.set_up()
    stream = rm.open()
    flood(rm, stream)
    running = rm.allocations([stream.next()])[:3]  # what else it has heard of has ended meanwhile, let us say
    stream.cancel()
    pause()
    daemon.wait_for_event("resource manager changed", lambda line: line["state"] == "stopped")
    assert rm.is_resync(*rm.open().rest())
    again = rm.report(running)
    again.send(rm.asks(["again"]))
    return rm.heard(again.until(lambda got: bool(rm.heard(got).placed)))


def allocations(daemon: DaemonProcess) -> list[dict[str, Any]]:
    """The first few hundred of the only application; an invariant that does not hold fails the test."""
    state = daemon.state()
    assert state["violations"] == []
    (manager,) = state["resource_managers"]
    (application,) = manager["partitions"][0]["applications"]
    return list(application["allocations"])


def running(daemon: DaemonProcess) -> list[Runs]:
    """What runs, by the daemon's books."""
    return sorted(Runs(one["allocation_key"], one["uuid"], one["node_id"]) for one in allocations(daemon))


def resynchronised(rm: Absent[Any], got: Sequence[Any], keys: Sequence[str]) -> list[Runs]:
    """Is told to resync, reports all it has heard of, and asks for the other keys: all that runs, by its own books."""
    while not rm.is_resync(*(end := rm.open().rest())):
        # The channel may still have given this call to the connection that is breaking.
        assert end[:2] == ([], grpc.StatusCode.UNAVAILABLE), end
    known = rm.allocations(got)
    again = rm.report(known)
    missing = sorted(set(keys) - {one.allocationKey for one in known})
    for first in range(0, len(missing), PODS_PER_MESSAGE):
        again.send(rm.asks(missing[first : first + PODS_PER_MESSAGE]))
    known += rm.allocations(again.until(lambda more: len(rm.heard(more).placed) >= len(missing)))
    return sorted(Runs(one.allocationKey, one.UUID, one.nodeID) for one in known)


def cut_off_without_a_record(cable: Cable, rm: Absent[Any], pause: Callable[[], None]) -> list[Runs]:
    """The connection breaks in the middle of a flood; all that runs when it has resynchronised, by its own books."""
    rm.set_up()
    stream = rm.open()
    flood(rm, stream, SHORT_PODS)
    got = [stream.next()]
    cable.cut()
    got += stream.rest()[0]
    pause()
    return resynchronised(rm, got, pods(SHORT_PODS))


def cut_off_in_silence(daemon: DaemonProcess, cable: Cable, rm: Absent[Any]) -> list[Runs]:
    """An answer is swallowed, and the daemon notices only by the silence; the RM's books in the end as above."""
    rm.set_up()
    stream = rm.open()
    stream.send(rm.asks(["heard"]))
    got = stream.until(lambda got: bool(rm.heard(got).placed))
    cable.swallow_answers()
    stream.send(rm.asks(["swallowed"]))
    while daemon.metric("schedulerd_resource_managers", state="paused") == 0:
        pass
    assert [one.key for one in running(daemon)] == ["heard", "swallowed"]
    cable.cut()
    cable.put_back()
    got += stream.rest()[0]
    assert rm.heard(got).placed == ["heard"]
    return resynchronised(rm, got, ["heard", "swallowed"])


def main(seconds: Sequence[float], timeout_seconds: float) -> None:
    for dialect in DIALECTS:
        for away in seconds:
            _play_in_time(dialect, timeout_seconds, away)
        with (
            DaemonProcess("--reconnect-timeout-s", str(timeout_seconds)) as daemon,
            speaking(dialect, daemon.target) as rm,
        ):
            # The last seconds pass in waiting for the event, which is not waited for as long as for all of the timeout.
            heard = away_for_too_long(daemon, rm, lambda: time.sleep(max(0, timeout_seconds - 5)))
            print(f"{dialect}, past {timeout_seconds} s: resynchronised, and goes on: {heard == AGAIN}")


def _play_in_time(dialect: str, timeout_seconds: float, away_seconds: float) -> None:
    with DaemonProcess("--reconnect-timeout-s", str(timeout_seconds)) as daemon:
        if away_seconds <= CONNECTION_SECONDS_MAX:
            with Cable(daemon.target) as cable, speaking(dialect, cable.target) as rm:
                heard = cable_pulled(cable, rm, lambda: time.sleep(away_seconds))
                told = heard.placed == pods(PODS)
                print(f"{dialect}, cable pulled for {away_seconds} s: all in order, once each: {told}")
        with Cable(daemon.target) as cable, speaking(dialect, cable.target, Record()) as rm:
            uuids, heard = cut_off_again_and_again(daemon, cable, rm, lambda: time.sleep(away_seconds))
            told = heard == Heard(pods(PODS), uuids)
            print(f"{dialect}, cut off for {away_seconds} s, three times: all in order, once each: {told}")
        with (
            DaemonProcess("--resync-after-lost-connection", "--reconnect-timeout-s", str(timeout_seconds)) as strict,
            Cable(strict.target) as cable,
            speaking(dialect, cable.target) as rm,
        ):
            runs = cut_off_without_a_record(cable, rm, lambda: time.sleep(away_seconds))
            told = [one.key for one in runs] == pods(SHORT_PODS) and runs == running(strict)
            print(f"{dialect}, cut off for {away_seconds} s, has to resync: each once, in both books: {told}")
        with speaking(dialect, daemon.target) as rm:
            uuids, heard = away_while_all_ends(daemon, rm, lambda: time.sleep(away_seconds))
            print(f"{dialect}, no stream for {away_seconds} s: all in order, once each: {heard.ended == uuids}")


if __name__ == "__main__":
    main([float(argument) for argument in sys.argv[1:]] or [1, 30], timeout_seconds=40)
