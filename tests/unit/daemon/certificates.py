"""Certificates made by hand (DER, X.509), with any names: as much of one as whoever reads its names has to pass."""

from __future__ import annotations

import base64
from collections.abc import Sequence

UTF8, PRINTABLE, T61, BMP = 0x0C, 0x13, 0x14, 0x1E
COMMON_NAME, ORGANIZATION, ALTERNATIVE_NAME, KEY_USAGE = (
    bytes.fromhex(one) for one in ("550403", "55040a", "551d11", "551d0f")
)
EMAIL, DNS, URI, IP, DIRECTORY = 0x81, 0x82, 0x86, 0x87, 0xA4


def element(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    size = (length.bit_length() + 7) // 8
    return bytes([tag, 0x80 | size]) + length.to_bytes(size, "big") + content


def attribute(object_id: bytes, value: bytes, kind: int = UTF8) -> bytes:
    """A part of a subject."""
    return element(0x31, element(0x30, element(6, object_id), element(kind, value)))


def certificate(subject: Sequence[bytes] = (), alternatives: Sequence[tuple[int, bytes]] = ()) -> bytes:
    """In PEM form: one whose subject has these attributes, with these subject alternative names."""
    names = element(0x30, *(element(tag, content) for tag, content in alternatives))
    extensions = [
        element(0x30, element(6, KEY_USAGE), element(1, b"\xff"), element(4, element(3, b"\x00"))),
        element(0x30, element(6, ALTERNATIVE_NAME), element(4, names)),
    ]
    signed = element(
        0x30,
        element(0xA0, element(2, b"\x02")),
        element(2, b"\x01" * 20),
        element(0x30, element(6, b"\x2a")),
        element(0x30, attribute(COMMON_NAME, b"the authority")),
        element(0x30, element(0x17, b"200101000000Z"), element(0x17, b"300101000000Z")),
        element(0x30, *subject),
        element(0x30, element(3, b"\x00" * 300)),
        element(0xA3, element(0x30, *extensions)),
    )
    der = element(0x30, signed, element(0x30, element(6, b"\x2a")), element(3, b"\x00" * 256))
    return b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"


def named(common_name: str = "", *alternatives: tuple[int, str]) -> bytes:
    """One with a common name, or none, and these alternative names as texts."""
    subject = [attribute(COMMON_NAME, common_name.encode())] if common_name else []
    return certificate(subject, [(tag, text.encode()) for tag, text in alternatives])
