"""A journal says every command exactly, and its digest tells facts apart that differ in anything."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Fact
from schedulerd.instant import Instant
from schedulerd.journal import Digest, Entry, Journal, Proof
from schedulerd.journal.decode import CommandReader
from schedulerd.journal.encode import entry_text, facts_bytes, facts_text
from schedulerd.journal.recorder import JournalRecorder
from schedulerd.journal.schema import schema
from tests.instants import at
from tests.loops import each_seed
from tests.sim.observations import Observations
from tests.sim.simulation import new_scheduler, simulate
from tests.unit.journal.build import GENEROUS_BYTES, files_in

COMMANDS = get_args(Command)
FACTS = get_args(Fact)

PLAIN: Mapping[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=4) | st.sampled_from(["a", "b", "\ud800", "\n", '"']),
    int: st.integers(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    NoneType: st.none(),
}


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:
    """Anything of that type that the core could be given or say."""
    arguments = get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if get_origin(hint) is UnionType:
        return st.one_of(*map(values, arguments))
    if get_origin(hint) is Mapping:
        return st.dictionaries(*map(values, arguments), max_size=3)
    if get_origin(hint) is tuple and arguments[-1] is not Ellipsis:
        return st.tuples(*map(values, arguments))
    if get_origin(hint) in (list, tuple, frozenset):
        return st.lists(values(arguments[0]), max_size=3).map(get_origin(hint))
    if issubclass(hint, dict):
        return st.dictionaries(values(str), values(int), max_size=3).map(hint)
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    return st.deferred(lambda: st.builds(hint, **{name: values(inner) for name, inner in get_type_hints(hint).items()}))


def shown(value: object) -> str:
    """With types and order, which equality does not look at."""
    if isinstance(value, frozenset):
        return f"frozenset({sorted(value)})"
    if isinstance(value, list | tuple):
        return f"{type(value)}[{','.join(map(shown, value))}]"
    if is_dataclass(value):
        return f"{type(value)}({','.join(shown(getattr(value, field.name)) for field in fields(value))})"
    return f"{type(value)} {value!r}"


@pytest.mark.parametrize("kind", COMMANDS)
def test_every_command_comes_back_as_it_was(kind: type) -> None:
    reader = CommandReader(json.loads(json.dumps(schema())))

    @settings(deadline=None)
    @given(values(kind), st.integers(min_value=0))
    def check(command: Command, now_ns: int) -> None:
        text = entry_text(at(now_ns), command)
        assert text.isascii()
        assert text.isprintable()
        monotonic_ns, wall_ns, name, values = json.loads(text)
        again = reader.command(name, values)
        assert (Instant(monotonic_ns, wall_ns), shown(again)) == (at(now_ns), shown(command))

    check()


@pytest.mark.parametrize("kind", FACTS)
def test_facts_that_differ_in_a_field_differ_in_text_and_equal_ones_do_not(kind: type) -> None:
    @settings(deadline=None)
    @given(st.lists(values(kind), min_size=1, max_size=3), values(kind), st.data())
    def check(facts: list[Any], other: Any, data: st.DataObject) -> None:
        text = facts_text(facts)
        assert facts_text(copy.deepcopy(facts)) == text
        at = data.draw(st.integers(0, len(facts) - 1))
        for field in fields(kind):
            value = getattr(other, field.name)
            if value != getattr(facts[at], field.name):
                changed = [*facts[:at], replace(facts[at], **{field.name: value}), *facts[at + 1 :]]
                assert facts_text(changed) != text
        assert facts_text([*facts, facts[-1]]) != text

    check()


@each_seed(range(4), few=0)
def test_a_history_of_the_simulator_is_proved_by_its_journal(seed: int, tmp_path: Path) -> None:
    history, _ = simulate(seed, 300, Observations())
    folder = tmp_path / str(seed)
    folder.mkdir()
    recorder = JournalRecorder(files_in(folder, file_max=20_000, all_max=100 * GENEROUS_BYTES), lambda _: None)
    scheduler = new_scheduler()
    for now_ns, command in history:
        recorder.command(at(now_ns), command)
        recorder.facts(scheduler.step(now_ns, command))
    assert recorder.close("enough")

    journal = Journal.open(folder)
    assert len(journal.files) > 1
    again, proof = new_scheduler(), Proof()
    for record in journal:
        match record:
            case Entry():
                assert (record.now.monotonic_ns, shown(record.command)) == (
                    history[proof.entries][0],
                    shown(history[proof.entries][1]),
                )
                proof.add(facts_bytes(again.step(record.now.monotonic_ns, record.command)))
            case Digest():
                proof.compare(record, "facts of commands")
    assert proof.proved == len(history)
    assert proof.digests > 2
