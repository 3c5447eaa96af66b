"""Names are read from certificates as they are, and one that could be taken for another one is left out."""

from __future__ import annotations

import base64
import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.daemon.access.certificate_names import CERTIFICATES_MAX, certificate_names
from tests.unit.daemon.certificates import (
    BMP,
    COMMON_NAME,
    DIRECTORY,
    DNS,
    EMAIL,
    IP,
    ORGANIZATION,
    PRINTABLE,
    T61,
    URI,
    attribute,
    certificate,
    named,
)

TLS = Path(__file__).parents[3] / "contract" / "tls"


def read(pem: bytes) -> list[str]:
    return [str(name) for name in certificate_names(pem)]


def test_a_certificate_of_openssl() -> None:
    assert read((TLS / "client.pem").read_bytes()) == ["cn:client", "dns:localhost", "ip:127.0.0.1"]


def test_every_kind_is_told_apart_whatever_the_text_is() -> None:
    same = b"shim"
    pem = certificate(
        [attribute(ORGANIZATION, same), attribute(COMMON_NAME, same, PRINTABLE)],
        [
            (EMAIL, same),
            (DNS, same),
            (URI, same),
            (IP, ipaddress.ip_address("::1").packed),
            (DIRECTORY, same),
            (DNS, same),
        ],
    )
    assert read(pem) == ["cn:shim", "email:shim", "dns:shim", "uri:shim", "ip:::1"]


@pytest.mark.parametrize("text", ["", "\0", "ops\0.example", "\0ops", "a\nb", "a\x7f", "a\u200bb"])
def test_a_name_that_is_empty_or_cannot_be_seen_is_nobodys(text: str) -> None:
    subject = [attribute(COMMON_NAME, text.encode())]
    raw = text.encode()
    assert read(certificate(subject, [(DNS, raw), (URI, raw), (EMAIL, raw), (DNS, b"seen")])) == ["dns:seen"]


def test_a_common_name_in_an_encoding_that_is_not_sure_is_nobodys() -> None:
    assert read(certificate([attribute(COMMON_NAME, "ä".encode("latin-1"), T61)])) == []
    assert read(certificate([attribute(COMMON_NAME, b"\xff")])) == []
    assert read(certificate([attribute(COMMON_NAME, "ä".encode("utf-16-be"), BMP)])) == ["cn:ä"]
    assert read(named("ä")) == ["cn:ä"]


@pytest.mark.parametrize("second", [b"ops", b"\xff"])
def test_of_several_common_names_none_counts(second: bytes) -> None:
    subject = [attribute(COMMON_NAME, b"shim"), attribute(COMMON_NAME, second)]
    assert read(certificate(subject, [(DNS, b"still")])) == ["dns:still"]


def test_an_alternative_name_is_plain_ascii() -> None:
    assert read(certificate([], [(DNS, "ä".encode()), (URI, b"\xff")])) == []


@pytest.mark.parametrize("pem", [b"", b"\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_has_no_names(pem: bytes) -> None:
    assert read(pem) == []


def test_so_many_certificates_are_remembered() -> None:
    certificate_names.cache_clear()
    for number in range(CERTIFICATES_MAX + 1):
        assert read(named(str(number))) == [f"cn:{number}"]
    assert certificate_names.cache_info().currsize == CERTIFICATES_MAX


@given(st.data())
def test_a_broken_certificate_raises_nothing(data: st.DataObject) -> None:
    lines = named("shim", (DNS, "shim.example")).splitlines()
    der = bytearray(base64.b64decode(b"".join(lines[1:-1])))
    for _ in range(data.draw(st.integers(1, 3))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    certificate_names(b"\n".join([lines[0], base64.b64encode(bytes(der)), lines[-1], b""]))
