"""Runs the tables of `lifecycles`: returns the next state, or raises for an illegal move."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

State = TypeVar("State", bound=StrEnum)
Trigger = TypeVar("Trigger", bound=StrEnum)


class IllegalMove(Exception):
    """The table does not allow this trigger in this state: a bug of the caller, which must check `is_legal` first."""


def is_legal(table: Mapping[State, Mapping[Trigger, State]], state: State, trigger: Trigger) -> bool:
    return trigger in table[state]


def move(table: Mapping[State, Mapping[Trigger, State]], state: State, trigger: Trigger) -> State:
    """The state that `trigger` leads to. Raises IllegalMove if the table has no such entry."""
    try:
        return table[state][trigger]
    except KeyError:
        legal = ", ".join(table[state]) or "nothing"
        raise IllegalMove(f"{trigger} in state {state}; legal there: {legal}") from None
