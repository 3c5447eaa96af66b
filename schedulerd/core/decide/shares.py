"""Fairness as a sort key: who has the smallest share comes first.

A share is usage over guarantee, per resource type; where nothing is guaranteed the usage itself counts, so whoever
has a guarantee below which it stays goes first. Two contenders are compared by their largest share, then their second
largest and so on, which is what comparing these tuples does.
"""

from __future__ import annotations

from schedulerd.core.model.line import Key
from schedulerd.core.resources import Resources


def shares(used: Resources, guaranteed: Resources) -> tuple[float, ...]:
    """The shares in use, largest first; a type without usage has no share."""
    found = [amount / (guaranteed[name] or 1) for name, amount in used.items() if amount]
    found.sort(reverse=True)
    return tuple(found)


def queue_key(allocated: Resources, guaranteed: Resources, pending: Resources, name: str) -> Key:
    """Order among sibling queues: smallest share, then most pending, then name."""
    return (shares(allocated, guaranteed), -sum(pending.values()), name)


def fair_application_key(allocated: Resources, guaranteed: Resources, serial: int) -> Key:
    """Order in a `fair` leaf: smallest share of the queue's guarantee, then first submitted."""
    return (shares(allocated, guaranteed), serial)


def fifo_application_key(serial: int) -> Key:
    """Order in a `fifo` leaf: first submitted."""
    return (serial,)
