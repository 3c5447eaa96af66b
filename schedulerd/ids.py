"""Ids from a seed: the core has no randomness of its own, so that a history can be replayed with the same ids.

A seed is chosen once for a process. The same seed (a journal contains it) gives the same ids in the same order.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

SEED_BYTES = 16


def random_seed() -> int:
    """A seed that no other process has: 128 bits of the kernel's entropy."""
    return int.from_bytes(os.urandom(SEED_BYTES), "big")


def uuid_source(seed: int) -> Callable[[], str]:
    """Returns a function that returns a new UUID (version 4) as text at each call. The same seed gives the same UUIDs.

    `uuid.uuid4` asks the kernel each time, which costs a fifth of an allocation. These ids have to be unique but not
    secret, so a generator that is seeded once is enough.
    """
    bits = random.Random(seed).getrandbits

    def new_uuid() -> str:
        digits = (bits(128) & _RANDOM_MASK | _FIXED_BITS).to_bytes(16, "big").hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    return new_uuid


# The version (4 bits) and the variant (2 bits) of RFC 4122.
_RANDOM_MASK = ~((0xF << 76) | (0b11 << 62))
_FIXED_BITS = (4 << 76) | (0b10 << 62)
