"""TLS contexts of the server, and certificates that come from files."""

from __future__ import annotations

import ssl
from datetime import datetime
from pathlib import Path

from cryptography import x509

from schedulerd.kubernetes.admission.certificates import CERTIFICATE, KEY
from schedulerd.kubernetes.auth import AccessUnusable
from schedulerd.kubernetes.auth.files import FileReader
from schedulerd.kubernetes.auth.tls import ChainUnusable, load_chain


class CertificateUnusable(ValueError):
    """Certificate and key cannot be used; the text says why."""


def server_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Raises CertificateUnusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        load_chain(context, certificate, key)
    except ChainUnusable as error:
        raise CertificateUnusable(
            f"certificate and key are not usable: {error}; they must be PEM, belong together, and have no passphrase"
        ) from error
    return context


def expires(certificate: bytes) -> datetime:
    """When the first certificate of a PEM text ends. Raises CertificateUnusable."""
    try:
        return x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    except ValueError as error:
        raise CertificateUnusable(f"the certificate is not usable: {error}; it must be PEM") from error


class CertificateFolder:
    """`tls.crt` and `tls.key` in a folder, as a Secret of cert-manager is mounted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = FileReader()

    async def read(self) -> tuple[bytes, bytes]:
        """Certificate and key. Raises CertificateUnusable.

        The kubelet swaps both at once, but between two reads: a pair that does not belong together is found when it is
        loaded, and read again the next time.
        """
        try:
            return await self._read(self._folder / CERTIFICATE), await self._read(self._folder / KEY)
        except AccessUnusable as error:
            raise CertificateUnusable(str(error)) from error
