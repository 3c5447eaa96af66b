"""The names in a client's certificate, each with its kind, read from the certificate itself (X.509, DER).

gRPC provides names too, but as texts that end at the first zero byte: a certificate for `ops<0>.example` would have the
name `ops` there. The certificate has been verified before, so its structure is sound. A name that could be mistaken for
another one (no text, control characters, empty) is left out.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from schedulerd.config import NameKind

CERTIFICATES_MAX = 1_000
"""Number of certificates whose names are cached."""

_COMMON_NAME = bytes.fromhex("550403")
_SUBJECT_ALTERNATIVE_NAME = bytes.fromhex("551d11")
_INTEGER = 0x02
_EXTENSIONS = 0xA3
_SUBJECT_AT = 4
"""Index of the subject, counted from the serial number: serial number, algorithm, issuer, validity, subject."""

_ENCODINGS: Mapping[int, str] = {0x0C: "utf-8", 0x13: "ascii", 0x16: "ascii", 0x1E: "utf-16-be"}
"""Encoding of each type of text in a subject, by tag. There is no encoding of T61String that all agree on."""

_KINDS: Mapping[int, NameKind] = {0x81: NameKind.EMAIL, 0x82: NameKind.DNS, 0x86: NameKind.URI, 0x87: NameKind.IP}


class Name(NamedTuple):
    """One name of a client."""

    kind: NameKind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.text}"


@lru_cache(maxsize=CERTIFICATES_MAX)
def certificate_names(pem: bytes) -> tuple[Name, ...]:
    """The names of a certificate in PEM form, in its order: the common name, then the subject alternative names.

    If a certificate has several common names, none of them counts: it is not known which one its authority has checked.
    Bytes that are no certificate have no names.
    """
    try:
        der = ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))
        return tuple(dict.fromkeys(name for name in _names(der) if _is_readable(name.text)))
    except (ValueError, IndexError):
        return ()


def _names(der: bytes) -> Iterator[Name]:
    ((_, certificate),) = _parts(der)
    (_, signed), *_ = _parts(certificate)
    parts = [*_parts(signed)]
    from_serial = [tag for tag, _ in parts].index(_INTEGER)
    common_names = [*_common_names(parts[from_serial + _SUBJECT_AT][1])]
    if len(common_names) == 1:
        yield from (Name(NameKind.CN, text) for text in common_names if text is not None)
    for tag, content in parts:
        if tag == _EXTENSIONS:
            yield from _alternative_names(content)


def _common_names(subject: bytes) -> Iterator[str | None]:
    """Each common name; None for one that is not text."""
    for _, attributes in _parts(subject):
        for _, attribute in _parts(attributes):
            (_, object_id), (tag, value) = _parts(attribute)
            if object_id == _COMMON_NAME:
                yield _text(value, _ENCODINGS.get(tag))


def _alternative_names(explicit: bytes) -> Iterator[Name]:
    ((_, extensions),) = _parts(explicit)
    for _, extension in _parts(extensions):
        (_, object_id), *_, (_, value) = _parts(extension)
        if object_id != _SUBJECT_ALTERNATIVE_NAME:
            continue
        ((_, names),) = _parts(value)
        for tag, content in _parts(names):
            kind = _KINDS.get(tag)
            text = None
            if kind is NameKind.IP:
                text = str(ipaddress.ip_address(content))
            elif kind is not None:
                text = _text(content, "ascii")
            if kind is not None and text is not None:
                yield Name(kind, text)


def _text(value: bytes, encoding: str | None) -> str | None:
    try:
        return value.decode(encoding) if encoding is not None else None
    except UnicodeDecodeError:
        return None


def _is_readable(text: str) -> bool:
    """Whether people see the whole name: it is not empty and has no control characters or zero bytes."""
    return bool(text) and text.isprintable()


def _parts(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each DER element. Raises `IndexError` or `ValueError` if the bytes are no such elements."""
    at = 0
    while at < len(content):
        tag, length = content[at], content[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(content[at : at + size], "big")
            at += size
        if at + length > len(content):
            raise ValueError("an element is longer than what it is in")
        yield tag, content[at : at + length]
        at += length
