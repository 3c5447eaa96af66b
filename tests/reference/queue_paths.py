"""Paths of queues, as text."""

from __future__ import annotations


def path_to_root(path: str) -> list[str]:
    """The paths of a queue and all above it, root first."""
    names = path.split(".")
    return [".".join(names[:length]) for length in range(1, len(names) + 1)]


def is_below(path: str, top: str) -> bool:
    """Whether the queue is `top` itself, or below it."""
    return f"{path}.".startswith(f"{top}.")


def below(queue: str, top: str) -> list[str]:
    """The queue and those above it, up to but without `top`, leaf first."""
    return [path for path in reversed(path_to_root(queue)) if path != top and is_below(path, top)]


def common_queue(one: str, other: str) -> str:
    """The lowest queue that holds both."""
    return [path for path in path_to_root(one) if is_below(other, path)][-1]
