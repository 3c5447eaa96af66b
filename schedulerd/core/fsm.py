"""Runs the literal tables of `lifecycles`: one move, or a clear error for an illegal one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

State = TypeVar("State", bound=StrEnum)
Trigger = TypeVar("Trigger", bound=StrEnum)


class IllegalMove(Exception):
    """A trigger that the table does not allow in this state: a bug of the caller, which has to ask first."""


def is_legal(table: Mapping[State, Mapping[Trigger, State]], state: State, trigger: Trigger) -> bool:
    return trigger in table[state]


def move(table: Mapping[State, Mapping[Trigger, State]], state: State, trigger: Trigger) -> State:
    """The state that `trigger` leads to. Raises IllegalMove where the table has no cell."""
    try:
        return table[state][trigger]
    except KeyError:
        legal = ", ".join(table[state]) or "nothing"
        raise IllegalMove(f"{trigger} in state {state}; legal there: {legal}") from None
