"""Checks the form of an rmID."""

from __future__ import annotations

RM_ID_LENGTH_MAX = 256
"""Maximum length of an rmID, in characters."""


def rm_id_problem(rm_id: str) -> str | None:
    """Why this cannot be an rmID; None if it can. An rmID appears in logs, metrics and status messages."""
    if not rm_id.strip():
        return "rmID: is empty; a resource manager names itself by a unique id"
    if len(rm_id) > RM_ID_LENGTH_MAX or not rm_id.isprintable():
        return f"rmID: has {len(rm_id)} characters; it must be printable and have at most {RM_ID_LENGTH_MAX}"
    return None
