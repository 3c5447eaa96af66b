"""TLS contexts made of PEM texts.

OpenSSL takes a certificate to show only from a path. It gets that of an anonymous file in memory, so that a private key
never comes to lie on a disk.
"""

from __future__ import annotations

import os
import ssl

from schedulerd.kubernetes.auth.errors import AccessUnusable


def tls_context(ca: bytes | None, certificate: bytes | None, key: bytes | None, *, insecure: bool) -> ssl.SSLContext:
    """Trusts `ca`, or the certificates of the system without one. Raises `AccessUnusable`."""
    context = ssl.create_default_context() if ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca is not None:
        try:
            context.load_verify_locations(cadata=ca.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise AccessUnusable(f"the certificate authority is not usable: {error}; it must be PEM text") from error
    if certificate is not None:
        if key is None:
            raise AccessUnusable("there is a client certificate without its key; both are needed")
        _load_chain(context, certificate, key)
    return context


def _load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    try:
        load_chain(context, certificate, key)
    except ChainUnusable as error:
        raise AccessUnusable(
            f"the client certificate and its key are not usable: {error}; both must be PEM text without a passphrase"
        ) from error


class ChainUnusable(ValueError):
    """Certificate and key cannot be used together; the text says why."""


def load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Raises ChainUnusable."""
    descriptor = os.memfd_create("certificate-chain", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, certificate.rstrip() + b"\n" + key.rstrip() + b"\n")
        # A key with a passphrase would ask for it on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_no_passphrase)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ChainUnusable(str(error)) from error
    finally:
        os.close(descriptor)


def _no_passphrase() -> str:
    raise ValueError("the key has a passphrase")
