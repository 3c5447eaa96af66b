"""`python -m tests.contract.fuzz`: bytes that are no good, or only nearly, for every method of a running daemon.

Each call ends with a status that blames its client, and when it is all over the daemon's books balance, its memory is
what it was, its log knows of no error of its own, and a well-behaved client is served.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import QUEUES, RawClient, allocated
from tests.hostile_bytes import hostile
from tests.methods import METHODS

RM = "fuzzed"
GROWTH_BYTES_MAX = 64 << 20
"""What the daemon may hold more than before, however much was sent."""
STREAM_MESSAGES_MAX = 4
NO_MESSAGE = b"\x0a\xff"
"""Ends a stream that has survived what came before."""

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
        if "Traceback" in line or '"level": "critical"' in line:
            yield f"its log says: {line}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.contract.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20, help="each with a seed and a daemon of its own")
    parser.add_argument("--calls", type=int, default=500, help="of each method in a round")
    options = parser.parse_args(arguments)
    failed = 0
    for seed in range(options.seed, options.seed + options.rounds):
        with DaemonProcess() as daemon:
            report = fuzz(daemon, seed, options.calls)
        print(f"seed {seed}: {report}", *report.problems, sep="\n  ", flush=True)
        failed += bool(report.problems)
    print(f"{options.rounds} rounds, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
