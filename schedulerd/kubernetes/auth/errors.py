"""What can be wrong with the way to the API server."""

from __future__ import annotations


class AccessUnusable(Exception):
    """Credentials or addresses cannot be used; the message names the file, the field, and what would be right.

    Tokens and keys are never part of a message.
    """
