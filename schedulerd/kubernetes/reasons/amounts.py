"""Amounts of the scheduler as Kubernetes writes them."""

from __future__ import annotations

from schedulerd.amounts import amount_text
from schedulerd.kubernetes.resources import CPU, VCORE

__all__ = ["amount_text", "resource_name"]


def resource_name(name: str) -> str:
    """As Kubernetes calls it."""
    return CPU if name == VCORE else name
