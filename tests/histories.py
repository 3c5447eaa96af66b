"""Histories that a change of the code must not change: what resource managers and events are told, but for sentences.

    python -m tests.histories record DIRECTORY --seeds 300 --steps 2000     with the code before the change
    python -m tests.histories compare DIRECTORY                             with the code after it

A history is what the simulator did with one seed: commands with their times, written as a journal writes them. Of each
step it has a digest over the scheduler-interface responses, the event records and the calls of callback streams that
follow from it, without `reason` and `message`. So it knows commands and their fields, and no other name of the core.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config import matches
from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts import fact as facts
from schedulerd.core.language.facts import nodes as node_facts
from schedulerd.core.language.facts import predicates as predicate_facts
from schedulerd.core.language.facts import scheduling_states as scheduling_state_facts
from schedulerd.core.scheduler import Scheduler
from schedulerd.instant import Instant
from schedulerd.journal.decode import CommandReader
from schedulerd.journal.encode import entry_text
from schedulerd.journal.schema import schema
from schedulerd.observe.event_messages import message_of_2023
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventRing
from schedulerd.wire.dialect import Stream
from schedulerd.wire.encode import ResponseEncoder
from tests.sim.clusters import TIMEOUTS

SENTENCES = ("reason", "message")
RESPONSES: dict[Stream, type[Message]] = {
    Stream.ALLOCATION: si_pb2.AllocationResponse,
    Stream.APPLICATION: si_pb2.ApplicationResponse,
    Stream.NODE: si_pb2.NodeResponse,
}
EVENTS_KEPT = 100_000
RENAMED = {
    "GiveVerdicts": "GivePredicateResults",
    "Verdict": "PredicateResult",
    "verdicts": "results",
    "placements_max": "allocations_max",
    "nobody reads its allocation stream": "its allocation stream is not open",
    "schedulerd ended its allocation stream with an error, which the client was told": (
        "schedulerd ended its allocation stream with an error"
    ),
}
"""Commands, their fields and values that a history was recorded with, and what they are now."""


_CALLBACK_FACTS = {one.__name__ for one in (node_facts, predicate_facts, scheduling_state_facts)}
"""Modules of facts that do not go to update streams."""


class Play:
    """A scheduler of its own, and what it tells of each step."""

    def __init__(self) -> None:
        uuids = count(1)
        self._scheduler = Scheduler(TIMEOUTS, lambda: f"uuid-{next(uuids)}", matches)
        self._responses = ResponseEncoder()
        self._ring = EventRing(EVENTS_KEPT, "histories")
        self._events = EventRecorder(self._ring)

    def step(self, now_ns: int, command: Command) -> list[str]:
        """What is told of it, as texts."""
        now = Instant(now_ns, now_ns)
        said = self._scheduler.step(now_ns, command)
        self._responses.add(said, now)
        first = self._ring.next_id
        self._events.observe(said, now)
        told = [f"response {one.rm_id} {one.stream.name} {_response(one)}" for one in self._responses.drain()]
        told += [f"event {_bare(record)!r}" for record in _since(self._ring, first)]
        # In order: in which order asks are gone through that are not told of in order is no promise.
        told += sorted(f"call {_values(fact)}" for fact in said if type(fact).__module__ in _CALLBACK_FACTS)
        return told


def _response(one: Any) -> str:
    message = RESPONSES[one.stream]()
    message.ParseFromString(one.payload)
    return repr(_bare(message))


def _since(ring: EventRing, first: int) -> Iterator[Message]:
    while first < ring.next_id:
        found = ring.read(first, EVENTS_KEPT)
        yield from map(message_of_2023, found.events)
        first = found.next_id


def _bare(message: Message) -> Message:
    """Without its sentences."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING and field.name in SENTENCES:
            message.ClearField(field.name)
        elif (
            field.type == field.TYPE_MESSAGE
            and field.message_type is not None
            and field.message_type.GetOptions().map_entry
        ):
            continue
        elif field.type == field.TYPE_MESSAGE:
            for one in value if field.is_repeated else (value,):
                _bare(one)
    return message


def _values(fact: facts.Fact) -> str:
    return repr([_plain(getattr(fact, field.name)) for field in fields(fact) if field.name not in SENTENCES])


def _plain(value: object) -> object:
    """Without names of the core."""
    return value.value if isinstance(value, Enum) else value


def _digests(told: Sequence[list[str]]) -> list[str]:
    """Of each step over all until then, so that the first that differs is the first that is wrong."""
    digest = hashlib.sha256()
    found = []
    for texts in told:
        digest.update("\n".join(texts).encode(errors="surrogatepass"))
        found.append(digest.hexdigest()[:16])
    return found


def record(directory: Path, seed: int, steps: int) -> None:
    """Writes the history of a seed, with digests of what it tells."""
    # The simulator has names of the core; a later one would make other histories of the same seed.
    from tests.sim.observations import Observations
    from tests.sim.simulation import EVERY_WORLD, simulate

    history, failure = simulate(
        seed, steps, Observations(), EVERY_WORLD, is_faulty=bool(seed % 2), look_at_all_every=50
    )
    assert failure is None, failure.problems
    play = Play()
    digests = _digests([play.step(now_ns, command) for now_ns, command in history])
    entries = [json.loads(entry_text(Instant(now_ns, now_ns), command)) for now_ns, command in history]
    text = json.dumps({"fields": schema(), "history": entries, "digests": digests})
    (directory / f"{seed}.json.gz").write_bytes(gzip.compress(text.encode(errors="surrogatepass"), 1))


def compare(path: Path) -> str | None:
    """The first step of a history that tells something else than it did, with what it tells now; None if none does."""
    recorded = json.loads(gzip.decompress(path.read_bytes()).decode(errors="surrogatepass"))
    names = {
        RENAMED.get(name, name): [RENAMED.get(one, one) for one in names] for name, names in recorded["fields"].items()
    }
    commands, play = CommandReader(names), Play()
    told = []
    for now_ns, _, name, values in recorded["history"]:
        values = [RENAMED.get(one, one) if isinstance(one, str) else one for one in values]
        told.append(play.step(now_ns, commands.command(RENAMED.get(name, name), values)))
    for at, (now, before) in enumerate(zip(_digests(told), recorded["digests"], strict=True)):
        if now != before:
            return f"{path.name}: step {at}, {recorded['history'][at]}, tells\n  " + "\n  ".join(told[at])
    return None


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 if a history differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    given.directory.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(given.jobs) as jobs:
        if given.what == "record":
            seeds = range(1, given.seeds + 1)
            list(jobs.map(record, [given.directory] * given.seeds, seeds, [given.steps] * given.seeds))
            return 0
        paths = sorted(given.directory.glob("*.json.gz"))
        differing = [found for found in jobs.map(compare, paths) if found is not None]
    for one in differing[:5]:
        print(one)
    print(f"{len(paths)} histories, {len(differing)} differ")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
