"""Amounts of the scheduler interface as people write them: `3500m` and `2` cores, `1536Mi`, `4` devices."""

from __future__ import annotations

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
