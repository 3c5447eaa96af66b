"""How many connections a server may have, by the limit of open files of its process (RLIMIT_NOFILE).

Each connection needs a file descriptor. Where the limit is low, fixed bounds on connections are above it: clients that
say nothing take all descriptors then, and a probe is not even accepted. So every server takes at most a share.
"""

from __future__ import annotations

import resource

CONNECTIONS_MIN = 4


def share(of: int, most: int) -> int:
    """`most`, or a part of the limit of open files (1 of `of`) if that is less; at least `CONNECTIONS_MIN`."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return most
    return min(most, max(CONNECTIONS_MIN, limit // of))
