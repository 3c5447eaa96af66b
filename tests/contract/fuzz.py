"""`python -m tests.contract.fuzz`: what is no good, or only nearly, for every method of a running daemon.

Bytes of any kind (`hostile_bytes`), and well-formed messages with hostile contents (`hostile_contents`), both from a
seed. Each call ends with a status that blames its client. Meanwhile a resource manager that means well is served in
time (`fuzz_monitor`); and when it is all over the daemon's books balance, its memory is what it was, its log knows of
no error of its own, and it ends as it should.

    python -m tests.contract.fuzz --seed 7 --seeds 3 --rounds 11      # three daemons, of eleven rounds each
    python -m tests.contract.fuzz --without users,config-patterns     # what is known is left out
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.fuzz_monitor import LOST, Monitor
from tests.contract.raw_client import QUEUES, RawClient, allocated
from tests.contract.raw_client_2021 import RawClient2021
from tests.hostile_bytes import hostile
from tests.hostile_contents import QUEUES as QUEUES_OF_HOSTILE
from tests.hostile_contents import Call, hostile_call, kinds
from tests.hostile_values import RM as HOSTILE
from tests.hostile_values import RM_2021 as HOSTILE_2021
from tests.methods import METHODS

RM = "fuzzed"
GROWTH_BYTES_MAX = 64 << 20
"""What the daemon may hold more than before, however much was sent."""
SETTLED_ROUND, LAST_ROUND = 3, 10
"""Memory is compared after these rounds, as the median of it and its neighbours: some state comes and goes with what
was said last."""
CACHED = 4_000
"""Different sizes and constraints that are asked for before the first round: so many that each cache, which is emptied
when it is full, is nearly so."""
GROWTH_SHARE_MAX = 0.05
"""Of memory in use, and of resident memory, which has holes as well."""
EVENTS_KEPT = 1_000
"""So that there are as many as there may be, and of any size, before memory is compared."""
SHOWN_CHARACTERS = 500
STREAM_MESSAGES_MAX = 4
NO_MESSAGE = b"\x0a\xff"
"""Ends a stream that has survived what came before."""

ERRORS_OF_OTHERS = frozenset({"queue file not reloaded: nothing changed"})
"""Lines of level error by which an operator hears of a mistake that somebody else made."""
STREAMS = frozenset({"UpdateAllocation", "UpdateApplication", "UpdateNode", "Update", "Connect"})
BLAMES_THE_CLIENT = frozenset(
    {
        grpc.StatusCode.OK,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.ABORTED,
    }
)


@dataclass(slots=True)
class Report:
    """What was sent, how the calls ended, and what is wrong after it."""

    messages: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    grown_bytes: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        ended = ", ".join(f"{count} {name}" for name, count in sorted(self.statuses.items()))
        return (
            f"{self.messages} messages in {self.statuses.total()} calls of {len(METHODS)} methods survived "
            f"({ended}); the daemon holds {self.grown_bytes / 1e6:.1f} MB more than before"
        )


def fuzz(daemon: DaemonProcess, seed: int, calls: int) -> Report:
    """Makes so many calls of every method, in an order that the seed decides."""
    choose, report = random.Random(seed), Report()
    with RawClient(daemon.target, RM) as client:
        _serve_well(client)
        before_bytes = daemon.resident_bytes()
        try:
            _calls(client, choose, calls, report)
            _serve_well(client)
        except grpc.RpcError as error:
            report.problems.append(f"who means well is not served any more: {error}")
            return report
    report.grown_bytes = daemon.resident_bytes() - before_bytes
    report.problems += _problems(daemon, report)
    return report


def _calls(client: RawClient, choose: random.Random, calls: int, report: Report) -> None:
    order = METHODS * calls
    choose.shuffle(order)
    for number, method in enumerate(order):
        if number % len(METHODS) == 0:
            client.register()  # what came before may have unregistered it
        code, details = _call(client, method, choose, report)
        report.statuses[code.name] += 1
        if code not in BLAMES_THE_CLIENT:
            report.problems.append(f"call {number}, of {method.full_name}: {code.name} {details}")


def _call(
    client: RawClient, method: MethodDescriptor, choose: random.Random, report: Report
) -> tuple[grpc.StatusCode, str]:
    path = f"/{method.containing_service.full_name}/{method.name}"
    kind = ("stream" if method.client_streaming else "unary") + "_" + ("stream" if method.server_streaming else "unary")
    stub: Any = getattr(client.channel, kind)(path)
    try:
        if method.client_streaming:
            for _ in stub(iter(list(_stream(method, choose, report))), timeout=LIMIT_SECONDS):
                pass
        elif method.server_streaming:
            call = stub(_one(method, choose, report), timeout=LIMIT_SECONDS)
            call.initial_metadata()
            if not call.cancel():  # it was over, so it was not served
                return call.code(), call.details()
        else:
            stub(_one(method, choose, report), timeout=LIMIT_SECONDS)
    except grpc.RpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


def _one(method: MethodDescriptor, choose: random.Random, report: Report) -> bytes:
    """For this resource manager more often than not, as nobody looks further into what is for nobody."""
    message_type = GetMessageClass(method.input_type)
    report.messages += 1
    raw = hostile(choose, message_type)
    if "rmID" in method.input_type.fields_by_name and choose.random() < 0.8:
        raw += message_type(rmID=RM).SerializeToString()
    return raw


def _stream(method: MethodDescriptor, choose: random.Random, report: Report) -> Iterator[bytes]:
    message_type: Any = GetMessageClass(method.input_type)
    if choose.random() < 0.8:
        hello = message_type(hello={"rmID": RM, "predicates": True}) if method.name == "Connect" else None
        yield (hello or message_type(rmID=RM)).SerializeToString()
    for _ in range(choose.randint(0, STREAM_MESSAGES_MAX)):
        yield _one(method, choose, report)
    yield NO_MESSAGE


def _serve_well(client: RawClient) -> None:
    """Everything that a client who means well needs works."""
    client.register(QUEUES)
    client.set_up()
    stream = client.allocations()
    stream.send(client.asks("app-1", ["pod"]))
    stream.until(lambda got: bool(allocated(got)))
    stream.cancel()


def _problems(daemon: DaemonProcess, report: Report) -> Iterator[str]:
    yield from daemon.state()["violations"]
    if report.grown_bytes > GROWTH_BYTES_MAX:
        yield f"the daemon has grown by {report.grown_bytes} bytes"
    for line in daemon.lines:
        if any(sign in line for sign in ("Traceback", '"level": "critical"', '"check failed"')):
            yield f"its log says: {line}"


@dataclass(slots=True)
class Run:
    """All rounds with one daemon, and what was found."""

    findings: list[str] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    """Bytes after each round; the next as well."""
    in_use: list[int] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    """Of each kind."""


def play(
    seeds: Sequence[int | str],
    *,
    calls: int,
    without: Collection[str] = (),
    module: str = "tests.contract.measured_daemon",
) -> Run:
    """A round for each seed, all with one daemon: `calls` calls of every kind of contents, of every method with bytes.

    Prints a line of figures for each round.
    """
    run = Run()
    with DaemonProcess("--event-ring-max", str(EVENTS_KEPT), module=module) as daemon:
        try:
            _fill_caches(daemon)
            with Monitor(daemon) as monitor:
                for seed in seeds:
                    _round(daemon, monitor, random.Random(f"{seed}"), calls, without, run)
                    print(f"seed {seed}: {_figures(run, monitor)}", flush=True)
                    if monitor.findings or run.findings:
                        break  # what comes after the first findings is what comes of them
            run.findings += monitor.findings
            run.findings += daemon.state()["violations"]
            run.findings += _internal_errors(daemon)
        except LOST as error:
            run.findings.append(f"the daemon serves nobody any more: {type(error).__name__}: {error}")
        run.findings += _end(daemon)
    run.findings += growth(run)
    return run


def _round(
    daemon: DaemonProcess, monitor: Monitor, choose: random.Random, calls: int, without: Collection[str], run: Run
) -> None:
    with RawClient(daemon.target, HOSTILE) as client, RawClient2021(daemon.target, HOSTILE_2021) as client_2021:
        order = [kind for kind in kinds() if kind not in without] * calls
        choose.shuffle(order)
        for at, kind in enumerate(order):
            if at % (len(order) // 4 or 1) == 0:
                _begin(client, client_2021)
            call = hostile_call(choose, kind)
            monitor.during = f"with call {at} ({kind}, {call.method})"
            run.calls[kind] += 1
            code, details = _send(client, call)
            if code not in BLAMES_THE_CLIENT:
                run.findings.append(
                    f"call {at} ({kind}, {call.method}) ended with {code.name}: {details[:SHOWN_CHARACTERS]}"
                )
            if monitor.findings or run.findings:
                run.findings.append(f"the last message was {_shown(call)}")
                return
        _begin(client, client_2021)  # what they have reported is dropped, and is no growth
    if "bytes" not in without:
        monitor.during = "with bytes that are no message"
        report = fuzz(daemon, choose.randrange(2**32), calls)
        run.calls["bytes"] += report.statuses.total()
        run.findings += report.problems
    run.resident.append(daemon.resident_bytes())
    run.in_use.append(daemon.in_use_bytes())


def _fill_caches(daemon: DaemonProcess) -> None:
    with RawClient(daemon.target, HOSTILE) as client, RawClient2021(daemon.target, HOSTILE_2021) as client_2021:
        client_2021.register(QUEUES_OF_HOSTILE)
        request = client_2021.everything(["node-0"], "app-1", [f"cached-{number}" for number in range(CACHED)])
        for number, ask in enumerate(request.asks):
            ask.resourceAsk.resources["memory"].value = 1_000 + number
            node = ask.placementConstraint.simpleConstraint.nodeAffinityConstraint
            node.targetExpressions.add(targetKey="rack", targetValues=[f"{number}" * 100])
        code, details = _send(client, Call("caches", "si.v1.Scheduler", "Update", [request]))
        assert code in BLAMES_THE_CLIENT, details


def _shown(call: Call) -> str:
    """The start of each long text and all of the others, of the last message."""
    return re.sub(r'"([^"\n]{60})[^"\n]+"', r'"\1..."', str(call.messages[-1]))[: 2 * SHOWN_CHARACTERS]


def _begin(client: RawClient, client_2021: RawClient2021) -> None:
    """The hostile RMs have a node and an application in each dialect, so that what refers to them gets further."""
    client.set_up(config=QUEUES_OF_HOSTILE)
    client_2021.register(QUEUES_OF_HOSTILE)
    stream = client_2021.updates()
    stream.send(client_2021.everything(["node-0"], "app-1", ["first"]))
    stream.until(lambda got: any(response.newAllocations for response in got))
    stream.half_close()


def _send(client: RawClient, call: Call) -> tuple[grpc.StatusCode, str]:
    """How a call ends; a stream of updates is ended by bytes that are no message, after all others were taken."""
    raw = [message.SerializeToString() for message in call.messages]
    path = f"/{call.service}/{call.method}"
    try:
        if call.method in STREAMS:
            stream: Any = client.channel.stream_stream(path)
            for _ in stream(iter([*raw, NO_MESSAGE]), timeout=LIMIT_SECONDS):
                pass
        else:
            unary: Any = client.channel.unary_unary(path)
            unary(raw[0], timeout=LIMIT_SECONDS)
    except grpc.RpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


def _figures(run: Run, monitor: Monitor) -> str:
    trips = sorted(monitor.round_trips)
    middle, (slowest, during) = trips[len(trips) // 2] if trips else 0.0, monitor.slowest
    resident = f"{run.resident[-1] / 1e6:.0f} MB ({run.in_use[-1] / 1e6:.1f} in use)" if run.resident else "?"
    return (
        f"{run.calls.total()} calls so far, {len(trips)} pods of a quiet RM in {1e3 * middle:.0f} ms each and "
        f"{1e3 * slowest:.0f} ms at most ({during}), the daemon holds {resident}"
    )


def _internal_errors(daemon: DaemonProcess) -> Iterator[str]:
    """What the daemon counts of errors of its own, if this version does."""
    count = daemon.total("schedulerd_internal_errors_total")
    if count:
        yield f"schedulerd_internal_errors_total is {count:g}"


def _end(daemon: DaemonProcess) -> Iterator[str]:
    """The daemon is told to stop, and its log is read."""
    daemon.signal(signal.SIGTERM)
    try:
        status = daemon.wait()
    except subprocess.TimeoutExpired:
        status = None
    if status != 0:
        yield f"its exit status at SIGTERM is {status}"
    for line in daemon.lines:
        entry = json.loads(line) if line.startswith("{") else {"level": "error"}
        if entry.get("level") in ("error", "critical") and entry.get("event") not in ERRORS_OF_OTHERS:
            said = entry.get("exception") or line.strip()
            yield f"its log has {entry.get('event', 'no JSON')!r}: {said[-SHOWN_CHARACTERS:]}"


def growth(run: Run) -> Iterator[str]:
    for what, sizes in (("bytes in use", run.in_use), ("bytes of resident memory", run.resident)):
        if len(sizes) > LAST_ROUND:
            settled, last = (median(sizes[one - 2 : one + 1]) for one in (SETTLED_ROUND, LAST_ROUND))
            if last > (1 + GROWTH_SHARE_MAX) * settled:
                yield (
                    f"it holds {last:.0f} {what} after round {LAST_ROUND}, and {settled:.0f} after round "
                    f"{SETTLED_ROUND}"
                )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.contract.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=3, help="each with a daemon of its own")
    parser.add_argument("--rounds", type=int, default=LAST_ROUND + 1, help="with each daemon")
    parser.add_argument("--calls", type=int, default=20, help="of each kind, and with bytes of each method, in a round")
    parser.add_argument("--without", default="", help=f"kinds to leave out, of bytes, {', '.join(kinds())}")
    options = parser.parse_args(arguments)
    without = [kind for kind in options.without.split(",") if kind]
    if unknown := set(without) - {"bytes", *kinds()}:
        parser.error(f"--without: {', '.join(sorted(unknown))} is no kind")
    failed = 0
    for seed in range(options.seed, options.seed + options.seeds):
        rounds = [f"{seed}-{number}" for number in range(1, options.rounds + 1)]
        run = play(rounds, calls=options.calls, without=without)
        for one in run.findings:
            print(f"  FINDING: {one}", flush=True)
        failed += bool(run.findings)
    left_out = f" without {', '.join(without)}" if without else ""
    print(
        f"{'FAILED' if failed else 'PASSED'}: {options.seeds} seeds of {options.rounds} rounds{left_out}, "
        f"{failed} failed"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
