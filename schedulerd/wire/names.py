"""Partition names as they look on the wire, `[rmID]name`, and as they are inside, `name`.

Every resource manager has partitions of its own (SEMANTICS C1), so inside the core a name needs no prefix; a resource
manager that hears the name back expects it with its id in front.
"""

from __future__ import annotations


def partition_from_wire(rm_id: str, name: str) -> str:
    """`[rm]name`, `name` and '' become `name`, `name` and ''; the prefix of another RM stays for the core to refuse."""
    return name.removeprefix(f"[{rm_id}]")


def partition_to_wire(rm_id: str, name: str) -> str:
    return f"[{rm_id}]{name}"
