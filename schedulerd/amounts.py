"""Amounts of the scheduler interface as people write them: `3500m` and `2` cores, `1536Mi`, `4` devices."""

from __future__ import annotations

from collections.abc import Mapping

VCORE = "vcore"
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BYTES = ("memory", "ephemeral-storage")


def amount_text(name: str, amount: int) -> str:
    """`name` is that of the resource in the scheduler interface. Exact."""
    if amount < 0:
        return f"-{amount_text(name, -amount)}"
    if name == VCORE:
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    if name in _BYTES or name.startswith("hugepages-"):
        return _bytes(amount)
    return str(amount)


def _bytes(amount: int) -> str:
    power = 0
    while amount and amount % 1024 == 0 and power < len(_BINARY) - 1:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY[power]}"


def resource(name: str) -> str:
    """The resource as people call it: `cpu` for the `vcore` of the interface."""
    return "cpu" if name == VCORE else name


def amount(name: str, value: int) -> str:
    """`500m cpu`, `1Gi memory`."""
    return f"{amount_text(name, value)} {resource(name)}"


def amounts(resources: Mapping[str, int]) -> str:
    """`1Gi memory, 500m cpu`."""
    return ", ".join(amount(name, value) for name, value in resources.items())


def part_of(name: str, used: int, whole: int) -> str:
    """`1 of 4 cpu`."""
    return f"{amount_text(name, used)} of {amount(name, whole)}"
