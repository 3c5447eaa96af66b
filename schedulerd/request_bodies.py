"""Which bodies of HTTP requests are read: plain ones. Every HTTP server of the package asks here.

A body with a content coding, such as gzip, is refused (415) before any of it is unpacked: 3 MB may stand for 3 GB, and
no client of ours codes its requests. Connections with a body that is not read to its end are closed.
"""

from __future__ import annotations

from collections.abc import Iterable

UNSUPPORTED = 415
REFUSED_UNREAD = frozenset({413, UNSUPPORTED})
"""Statuses after which the connection is closed: the rest of the body may still be on its way."""
ACCEPTS = {"accept-encoding": "identity"}
"""Header of the answer to a coded body, by which a client may learn what would be right (RFC 9110, 15.5.16)."""
_SHOWN_MAX = 100


def coding_problem(codings: Iterable[str]) -> str:
    """Why a request with these values of `Content-Encoding` is refused; '' if its body is plain."""
    named = [
        one for value in codings for one in map(str.strip, value.split(",")) if one.lower() not in ("", "identity")
    ]
    if not named:
        return ""
    return f"Content-Encoding: bodies are read as they are; send no {', '.join(named)[:_SHOWN_MAX]!r} coding"
