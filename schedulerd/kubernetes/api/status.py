"""What an API server says when it does not do what it was asked for."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

RETRY_AFTER_SECONDS_MAX = 120.0
"""Longer waits are cut: an unusable header must not stop writes for an hour."""
MESSAGE_CHARACTERS_MAX = 2000


class StatusCause(msgspec.Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    causes: list[StatusCause] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct):
    """The object of kind Status, or what is known of an answer without one."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None

    def has_cause(self, reason: str) -> bool:
        return self.details is not None and any(cause.reason == reason for cause in self.details.causes or ())

    @property
    def is_expired(self) -> bool:
        """The resource version or the continue token is too old: all has to be listed anew."""
        return self.code == 410 or self.reason in ("Expired", "Gone")

    @property
    def is_from_the_future(self) -> bool:
        """This server has not seen that resource version yet; another one has."""
        return self.has_cause("ResourceVersionTooLarge") or "Too large resource version" in self.message

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"


_STATUS = msgspec.json.Decoder(Status)


def status_of(code: int, body: bytes) -> Status:
    """The Status in `body`; proxies and panicking servers send others, of which the text is kept."""
    try:
        status = _STATUS.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        status = Status()
    if status.kind != "Status":
        text = body[: 4 * MESSAGE_CHARACTERS_MAX].decode("utf-8", "replace").strip()
        status = Status(message=text or "(no text)", reason="Unknown")
    if len(status.message) > MESSAGE_CHARACTERS_MAX:
        status.message = f"{status.message[:MESSAGE_CHARACTERS_MAX]}..."
    status.code = status.code or code
    return status


def retry_after_s(headers: Mapping[str, str], status: Status) -> float | None:
    """Seconds to wait as the server says, in the header or in the Status; None if it does not say."""
    text = headers.get("Retry-After", "")
    if text.isdecimal() and len(text) < 10:
        return min(float(text), RETRY_AFTER_SECONDS_MAX)
    if status.details is not None and status.details.retry_after_seconds > 0:
        return min(float(status.details.retry_after_seconds), RETRY_AFTER_SECONDS_MAX)
    return None
