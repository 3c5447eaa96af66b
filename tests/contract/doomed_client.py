"""A resource manager in a process of its own that asks for a lot, reads one answer, and is then killed by its test."""

from __future__ import annotations

import sys

from tests.contract.raw_client import RawClient


def main(target: str, rm_id: str) -> None:
    client = RawClient(target, rm_id)
    client.set_up(memory=1_000_000, vcore=100_000)
    stream = client.allocations(reading=False)
    for first in range(0, 50_000, 1000):
        stream.send(client.asks("app-1", [f"pod-{number}" for number in range(first, first + 1000)]))
    next(stream.call)
    sys.stdout.write("allocations are coming\n")
    sys.stdout.flush()
    stream.status()


if __name__ == "__main__":
    main(*sys.argv[1:])
