"""Shortens what fails to what it takes to fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import fields

from schedulerd.core.language.commands import Command
from tests.sim.simulation import CALM, Failure, History, replay

COMMANDS_REPLAYED_MAX = 15_000
"""So much work may go into shortening a failure, some 30 s."""


def shorten(failure: Failure, fails: Callable[[History], Failure | None] | None = None) -> Failure:
    """Leaves out ever smaller pieces of the history, then single items of commands, as long as the rest still fails.

    It has to fail in the same way: with commands left out, UUIDs are given out otherwise than the rest of them says.
    `fails` plays a history; without one it is judged by who found the failure.
    """
    judge = failure.judge
    plays = fails or (lambda history: replay(history, judge))
    work = 0
    kinds = _kinds(failure)

    def attempt(shorter: History) -> bool:
        nonlocal failure, work
        work += len(shorter)
        found = plays(shorter) if work <= COMMANDS_REPLAYED_MAX else None
        if found is None or not kinds & _kinds(found):
            return False
        failure = found
        return True

    piece = len(failure.history) // 2
    while piece:
        start = 0
        while start < len(failure.history):
            if not attempt(failure.history[:start] + failure.history[start + piece :]):
                start += piece
        piece //= 2
    at = 0
    while at < len(failure.history):
        now_ns, command = failure.history[at]
        before, after = failure.history[:at], failure.history[at + 1 :]
        if not any(attempt([*before, (now_ns, smaller), *after]) for smaller in _with_one_item_less(command)):
            at += 1
    return failure


def _kinds(failure: Failure) -> set[str]:
    """What is wrong, whoever it is wrong with: the last lines of the problems without anything that has a number."""
    lines = [problem.rstrip().splitlines()[-1] for problem in failure.problems if not problem.startswith(CALM)]
    return {re.sub(r"\S*\d\S*", "#", line) for line in lines}


def _with_one_item_less(command: Command) -> Iterator[Command]:
    for one in fields(command):
        items = getattr(command, one.name)
        for at in range(len(items) if isinstance(items, list) else 0):
            smaller = copy(command)
            setattr(smaller, one.name, items[:at] + items[at + 1 :])
            yield smaller
