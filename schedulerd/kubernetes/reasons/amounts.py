"""Amounts of the scheduler as people write them: `3500m` and `2` processors, `1536Mi`, `4` devices."""

from __future__ import annotations

from schedulerd.kubernetes.pod_resources import CPU, MEMORY
from schedulerd.kubernetes.resources import VCORE

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BYTES = (MEMORY, "ephemeral-storage")


def resource_name(name: str) -> str:
    """As Kubernetes calls it."""
    return CPU if name == VCORE else name


def amount_text(name: str, amount: int) -> str:
    """`name` is that of the scheduler interface. Exact."""
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
