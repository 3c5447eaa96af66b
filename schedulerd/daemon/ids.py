"""Where allocation UUIDs come from: the core has no randomness of its own."""

from __future__ import annotations

import random
from collections.abc import Callable


def uuid_source() -> Callable[[], str]:
    """Gives a function that returns a new random UUID (version 4) as text at each call.

    `uuid.uuid4` asks the kernel each time, which costs a fifth of a placement; these have to be unique and not secret,
    so a generator seeded once from the kernel's entropy does.
    """
    bits = random.Random().getrandbits

    def new_uuid() -> str:
        digits = f"{bits(128) & ~_FIXED_MASK | _FIXED_BITS:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    return new_uuid


# The version (4 bits) and the variant (2 bits) of RFC 4122.
_FIXED_MASK = (0xF << 76) | (0b11 << 62)
_FIXED_BITS = (4 << 76) | (0b10 << 62)
