"""Certificates that are made here: what they say, and that nobody is ever shown one that they do not trust yet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from schedulerd.kubernetes.admission.certificates import (
    AUTHORITIES_MAX,
    AUTHORITY_LIFE,
    AUTHORITY_RENEWED_BEFORE,
    CERTIFICATE,
    HOSTS_MAX,
    KEY,
    SERVER_LIFE,
    SERVER_RENEWED_BEFORE,
    TRUSTED_FIRST,
    Certificates,
    renewed,
)
from schedulerd.kubernetes.admission.serving import server_context
from tests.loops import each_row

START = datetime(2026, 11, 23, 12, tzinfo=UTC)
HOST = "schedulerd-admission.schedulerd.svc"
HOSTS = [HOST]
DAY = timedelta(days=1)


def verify(bundle: bytes, certificate: bytes, now: datetime, host: str = HOST) -> None:
    """As a caller does who trusts the bundle. Raises VerificationError."""
    store = Store(x509.load_pem_x509_certificates(bundle))
    verifier = PolicyBuilder().store(store).time(now).build_server_verifier(x509.DNSName(host))
    verifier.verify(x509.load_pem_x509_certificate(certificate), [])


def issued(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def test_the_first_ones_are_trusted_at_once() -> None:
    made = renewed(None, HOSTS, START)
    verify(made.ca_certificates, made.certificate, START)
    server_context(made.certificate, made.key)
    assert made.expires == START + SERVER_LIFE
    assert renewed(made, HOSTS, START) is made
    with pytest.raises(VerificationError):
        verify(made.ca_certificates, made.certificate, START, "schedulerd-admission.other.svc")
    with pytest.raises(VerificationError):
        verify(renewed(None, HOSTS, START).ca_certificates, made.certificate, START)


def test_a_clock_that_is_behind_is_no_reason_to_distrust() -> None:
    made = renewed(None, HOSTS, START)
    verify(made.ca_certificates, made.certificate, START - timedelta(minutes=59))


def test_five_years_day_by_day() -> None:
    """What is in use is always verified by the bundle of a day ago, which is the oldest that anybody still has."""
    now, kept = START, renewed(None, HOSTS, START)
    before = kept.ca_certificates
    certificates, authorities = {kept.certificate}, {kept.ca_key}
    for _ in range(5 * 365):
        now += DAY
        kept = renewed(kept, HOSTS, now)
        verify(before, kept.certificate, now)
        before = kept.ca_certificates
        assert kept.expires - now > 29 * DAY
        certificates.add(kept.certificate)
        authorities.add(kept.ca_key)
        assert 1 <= len(x509.load_pem_x509_certificates(kept.ca_certificates)) <= 2
    assert 5 * 365 / 60 <= len(certificates) <= 5 * 365 / 60 + 6
    assert len(authorities) == 4
    assert renewed(kept, HOSTS, now) is kept


def test_a_new_authority_is_trusted_for_a_day_before_it_signs() -> None:
    kept = renewed(None, HOSTS, START)
    first = x509.load_pem_x509_certificates(kept.ca_certificates)[0]
    now = START
    while len(x509.load_pem_x509_certificates(kept.ca_certificates)) == 1:
        now += DAY
        kept = renewed(kept, HOSTS, now)
    issued(kept.certificate).verify_directly_issued_by(first)
    almost = renewed(kept, HOSTS, now + TRUSTED_FIRST - timedelta(seconds=1))
    assert almost is kept
    after = renewed(kept, HOSTS, now + TRUSTED_FIRST)
    issued(after.certificate).verify_directly_issued_by(x509.load_pem_x509_certificates(after.ca_certificates)[0])
    verify(kept.ca_certificates, after.certificate, now + TRUSTED_FIRST)


def test_after_years_without_anybody_all_is_new() -> None:
    kept = renewed(None, HOSTS, START)
    late = START + timedelta(days=3_000)
    made = renewed(kept, HOSTS, late)
    verify(made.ca_certificates, made.certificate, late)
    assert len(x509.load_pem_x509_certificates(made.ca_certificates)) == 1


def test_a_server_certificate_that_is_due_waits_for_a_new_authority() -> None:
    """It is due half a day after the authority was renewed: nobody may be shown one of an authority of that day."""
    kept = renewed(None, HOSTS, START)
    due = START + AUTHORITY_LIFE - AUTHORITY_RENEWED_BEFORE + timedelta(hours=12)
    kept = renewed(kept, [HOST, "other"], due - (SERVER_LIFE - SERVER_RENEWED_BEFORE))
    now = START
    while len(x509.load_pem_x509_certificates(kept.ca_certificates)) == 1:
        now = START + AUTHORITY_LIFE - AUTHORITY_RENEWED_BEFORE + timedelta(hours=1)
        kept = renewed(kept, [HOST, "other"], now)
    assert renewed(kept, [HOST, "other"], due + timedelta(hours=1)) is kept
    after = renewed(kept, [HOST, "other"], now + TRUSTED_FIRST)
    assert after.certificate != kept.certificate
    verify(kept.ca_certificates, after.certificate, now + TRUSTED_FIRST)


def test_replicas_with_other_names_share_one_certificate() -> None:
    """As during a rollout: neither replaces what the other one has made, and a renewal forgets the old names."""
    old, new = [HOST, "old.svc", "10.0.0.1"], [HOST, "new.svc"]
    kept = renewed(renewed(None, old, START), new, START)
    for hosts in (old, new, [HOST]):
        assert renewed(kept, hosts, START + DAY) is kept
    for host in (HOST, "old.svc", "new.svc"):
        verify(kept.ca_certificates, kept.certificate, START, host)
    later = START + SERVER_LIFE - SERVER_RENEWED_BEFORE + DAY
    kept = renewed(kept, new, later)
    with pytest.raises(VerificationError):
        verify(kept.ca_certificates, kept.certificate, later, "old.svc")
    for number in range(2 * HOSTS_MAX):
        kept = renewed(kept, [HOST, f"n{number}.svc"], later)
    names = issued(kept.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert len(list(names)) == HOSTS_MAX
    verify(kept.ca_certificates, kept.certificate, later, HOST)


def test_another_name_makes_another_certificate() -> None:
    kept = renewed(None, HOSTS, START)
    made = renewed(kept, ["other.schedulerd.svc", "10.0.0.1"], START)
    assert made.ca_certificates == kept.ca_certificates
    verify(made.ca_certificates, made.certificate, START, "other.schedulerd.svc")


@each_row("field", ["ca_certificates", "ca_key", "certificate", "key"])
@each_row("content", [b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", None])
def test_what_cannot_be_used_is_made_again(field: str, content: bytes | None) -> None:
    kept, other = renewed(None, HOSTS, START), renewed(None, HOSTS, START)
    parts = {name: getattr(kept, name) for name in ("ca_certificates", "ca_key", "certificate", "key")}
    broken = Certificates(**{**parts, field: getattr(other, field) if content is None else content})
    made = renewed(broken, HOSTS, START)
    verify(made.ca_certificates, made.certificate, START)
    server_context(made.certificate, made.key)
    assert renewed(made, HOSTS, START) is made


def test_a_secret_with_something_missing_is_none() -> None:
    data = renewed(None, HOSTS, START).as_data()
    assert Certificates.of_data(data) is not None
    for name in data:
        assert Certificates.of_data({key: value for key, value in data.items() if key != name}) is None
    assert {CERTIFICATE, KEY} < set(data)


def test_nothing_secret_is_printed() -> None:
    made = renewed(None, HOSTS, START)
    assert "PRIVATE" not in repr(made)
    assert "2027-02-21" in repr(made)


def test_a_bundle_has_an_end() -> None:
    kept = renewed(None, HOSTS, START)
    many = b"".join(renewed(None, HOSTS, START + number * DAY).ca_certificates for number in range(8))
    full = Certificates(kept.ca_certificates + many, kept.ca_key, kept.certificate, kept.key)
    made = renewed(full, HOSTS, START)
    assert len(x509.load_pem_x509_certificates(made.ca_certificates)) == AUTHORITIES_MAX
