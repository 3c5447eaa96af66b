"""Values of credential fields, with errors that name the field and never the secret."""

from __future__ import annotations

import base64
import binascii

from schedulerd.kubernetes.auth.errors import AccessUnusable

TOKEN_CHARACTERS_MAX = 64 * 1024


def token_text(content: bytes, where: str) -> str:
    """A bearer token as it stands in a file. Raises `AccessUnusable`."""
    try:
        token = content.decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise AccessUnusable(f"{where}: byte {error.start} is not ASCII; a bearer token is ASCII text") from None
    return checked_token(token, where)


def checked_token(token: str, where: str) -> str:
    if not token:
        raise AccessUnusable(f"{where}: is empty; it must hold a bearer token")
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise AccessUnusable(f"{where}: has {len(token)} characters; at most {TOKEN_CHARACTERS_MAX} are allowed")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise AccessUnusable(f"{where}: has blanks, line breaks or unprintable characters; a bearer token has none")
    return token


def base64_bytes(text: str, where: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise AccessUnusable(f"{where}: is not base64 ({error}); it must be the base64 form of a PEM text") from None
