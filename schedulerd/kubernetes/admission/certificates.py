"""Certificates of the webhooks, made here: an authority, and a server certificate that it signs.

| what | lives | is replaced |
|---|---|---|
| authority | 2 years | half a year before its end |
| server certificate | 90 days | 30 days before its end |

A new authority is trusted before it signs: it joins the bundle of trusted ones at once, and signs from a day later on.
Meanwhile a server certificate that is due waits; only one that cannot be used at all is signed earlier.
An authority leaves the bundle when it ends. So at every moment the bundle of a day ago verifies the certificate in use.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = timedelta(days=730)
AUTHORITY_RENEWED_BEFORE = timedelta(days=182)
SERVER_LIFE = timedelta(days=90)
SERVER_RENEWED_BEFORE = timedelta(days=30)
TRUSTED_FIRST = timedelta(days=1)
"""For so long an authority is trusted before it signs."""
CLOCKS_APART = timedelta(hours=1)
"""Certificates are valid from so long before they are made: clocks of other machines may be behind."""
_USES = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
"""Webhooks show it to the daemon too, when they ask it."""
AUTHORITIES_MAX = 5
"""In the bundle."""
HOSTS_MAX = 40
"""Names of a certificate: those of an earlier one are dropped first."""

CA_CERTIFICATES, CA_KEY, CERTIFICATE, KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"
"""Keys of the Secret: authorities (the newest first), key of the newest, server certificate, its key. All PEM."""

_UNUSABLE = (ValueError, TypeError, UnsupportedAlgorithm)


@dataclass(frozen=True, slots=True)
class Certificates:
    """All that is kept. Texts are PEM."""

    ca_certificates: bytes
    """Authorities that callers are to trust, the newest first."""
    ca_key: bytes
    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"Certificates(expires={self.expires:%Y-%m-%d})"

    @property
    def expires(self) -> datetime:
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc

    def as_data(self) -> dict[str, bytes]:
        """Of a Secret."""
        return {
            CA_CERTIFICATES: self.ca_certificates,
            CA_KEY: self.ca_key,
            CERTIFICATE: self.certificate,
            KEY: self.key,
        }

    @classmethod
    def of_data(cls, data: Mapping[str, bytes]) -> Certificates | None:
        """None if something is missing."""
        names = (CA_CERTIFICATES, CA_KEY, CERTIFICATE, KEY)
        return cls(*(data[name] for name in names)) if all(data.get(name) for name in names) else None


@dataclass(frozen=True, slots=True)
class _Authority:
    certificates: Sequence[x509.Certificate]
    key: ec.EllipticCurvePrivateKey


def renewed(kept: Certificates | None, hosts: Sequence[str], now: datetime) -> Certificates:
    """What is to be kept from now on: `kept` itself if nothing is to be done. `hosts` are names and addresses."""
    authority = None if kept is None else _authority(kept, now)
    if kept is None or authority is None:
        authority = _new_authority((), now)
        return _signed(authority, hosts, now)
    if authority.certificates[0].not_valid_after_utc - now < AUTHORITY_RENEWED_BEFORE:
        # The key of the older authority is not kept: what it has to sign for the time until then, it signs now.
        if not _is_usable(kept, authority.certificates, hosts, now):
            kept = _signed(authority, _names_of_all(kept, authority.certificates, hosts, now), now)
        authority = _new_authority(authority.certificates, now)
        return Certificates(_bundle(authority.certificates), _pem_key(authority.key), kept.certificate, kept.key)
    newest = authority.certificates[0]
    may_sign = now - newest.not_valid_before_utc >= CLOCKS_APART + TRUSTED_FIRST
    trusted, left = ([newest], SERVER_RENEWED_BEFORE) if may_sign else (authority.certificates, TRUSTED_FIRST)
    if not _is_usable(kept, trusted, hosts, now, left):
        return _signed(authority, _names_of_all(kept, trusted, hosts, now, left), now)
    bundle = _bundle(authority.certificates)
    if bundle != kept.ca_certificates:  # one has ended
        return Certificates(bundle, kept.ca_key, kept.certificate, kept.key)
    return kept


def _authority(kept: Certificates, now: datetime) -> _Authority | None:
    """The authorities that have not ended; None if they, or their key, cannot be used."""
    try:
        certificates = x509.load_pem_x509_certificates(kept.ca_certificates)
        key = serialization.load_pem_private_key(kept.ca_key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or certificates[0].public_key() != key.public_key():
            return None
        alive = [one for one in certificates if one.not_valid_after_utc > now]
        if not alive or alive[0] is not certificates[0]:
            return None
        return _Authority(alive[:AUTHORITIES_MAX], key)
    except _UNUSABLE:
        return None


def _names_of_all(
    kept: Certificates,
    trusted: Sequence[x509.Certificate],
    hosts: Sequence[str],
    now: datetime,
    left: timedelta = SERVER_RENEWED_BEFORE,
) -> Sequence[str]:
    """`hosts`, and before them the names of a certificate that lacks nothing but those: replicas with other names share
    it during a rollout, and would replace it in turn. The next renewal drops them."""
    if not _is_usable(kept, trusted, (), now, left):
        return hosts
    names = x509.load_pem_x509_certificate(kept.certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return list(dict.fromkeys([*(str(name.value) for name in names.value), *hosts]))[-HOSTS_MAX:]


def _is_usable(
    kept: Certificates,
    trusted: Sequence[x509.Certificate],
    hosts: Sequence[str],
    now: datetime,
    left: timedelta = SERVER_RENEWED_BEFORE,
) -> bool:
    """Whether the server certificate has so much time left, has these names, and is signed by one of `trusted`."""
    try:
        certificate = x509.load_pem_x509_certificate(kept.certificate)
        key = serialization.load_pem_private_key(kept.key, None)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if certificate.public_key() != key.public_key() or not set(_names(hosts)) <= set(names):
            return False
    except (*_UNUSABLE, x509.ExtensionNotFound):
        return False
    if certificate.not_valid_after_utc - now < left:
        return False
    return any(_has_signed(one, certificate) for one in trusted)


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, *_UNUSABLE):
        return False
    return True


def _new_authority(older: Sequence[x509.Certificate], now: datetime) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    # Each has a name of its own: with equal names, a verifier may try the key of another authority.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"schedulerd admission {now:%Y-%m-%d %H:%M:%S}")])
    certificate = (
        _begun(name, key, now, AUTHORITY_LIFE)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _Authority([certificate, *older][:AUTHORITIES_MAX], key)


def _signed(authority: _Authority, hosts: Sequence[str], now: datetime) -> Certificates:
    """With a new server certificate by the newest authority."""
    issuer, key = authority.certificates[0], ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "schedulerd admission")])
    certificate = (
        _begun(name, key, now, SERVER_LIFE)
        .issuer_name(issuer.subject)
        .add_extension(x509.SubjectAlternativeName(_names(hosts)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_USES), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    return Certificates(_bundle(authority.certificates), _pem_key(authority.key), pem, _pem_key(key))


def _begun(name: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_APART)
        .not_valid_after(now + life)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    return [_name(host) for host in hosts]


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _bundle(certificates: Sequence[x509.Certificate]) -> bytes:
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
