"""Where ids come from: the core has no randomness of its own, so that a history can be played again with the same ones.

A seed is chosen once for a process. Who knows it (a journal says it) gets the same ids in the same order.
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
    """Gives a function that returns a new UUID (version 4) as text at each call; the same ones for the same seed.

    `uuid.uuid4` asks the kernel each time, which costs a fifth of a placement; these have to be unique and not secret,
    so a generator seeded once does.
    """
    bits = random.Random(seed).getrandbits

    def new_uuid() -> str:
        digits = (bits(128) & _RANDOM_MASK | _FIXED_BITS).to_bytes(16, "big").hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    return new_uuid


# The version (4 bits) and the variant (2 bits) of RFC 4122.
_RANDOM_MASK = ~((0xF << 76) | (0b11 << 62))
_FIXED_BITS = (4 << 76) | (0b10 << 62)
