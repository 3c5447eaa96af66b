"""Compares a ledger with the same amounts counted anew: the words that all modules `invariants` share."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.resources import Resources


def differences(what: str, has: Resources, counted: Resources) -> Iterator[str]:
    """A sentence if the ledger is not what is counted, and one if it is negative; `what` names the ledger."""
    if has != counted:
        yield f"{what} is {has.nonzero()}, counted {counted.nonzero()}"
    if has and min(has.values()) < 0:
        yield f"{what} is negative: {has.nonzero()}"
