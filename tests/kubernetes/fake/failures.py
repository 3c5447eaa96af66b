"""The errors that an API server answers with, as Status objects."""

from __future__ import annotations

from typing import Any

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Failure(Exception):
    """Answered as a Status with this code."""

    def __init__(
        self,
        code: int,
        message: str,
        reason: str = "",
        details: dict[str, Any] | None = None,
        retry_after_s: int | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_s = retry_after_s
        self.body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata or {},
            "status": "Failure",
            "message": message,
            "reason": reason or REASONS.get(code, "Unknown"),
            "code": code,
        }
        if details is not None:
            self.body["details"] = details


def not_found(plural: str, name: str, group: str = "") -> Failure:
    qualified = f"{plural}.{group}" if group else plural
    details = {"name": name, "kind": plural} | ({"group": group} if group else {})
    return Failure(404, f'{qualified} "{name}" not found', details=details)


def unknown_path() -> Failure:
    return Failure(404, "the server could not find the requested resource", details={})


def already_exists(plural: str, name: str, group: str = "") -> Failure:
    qualified = f"{plural}.{group}" if group else plural
    details = {"name": name, "kind": plural} | ({"group": group} if group else {})
    return Failure(409, f'{qualified} "{name}" already exists', "AlreadyExists", details)


def conflict(plural: str, name: str, why: str, group: str = "") -> Failure:
    qualified = f"{plural}.{group}" if group else plural
    details = {"name": name, "kind": plural} | ({"group": group} if group else {})
    return Failure(409, f'Operation cannot be fulfilled on {qualified} "{name}": {why}', details=details)


def invalid(kind: str, name: str, causes: list[tuple[str, str, str]], group: str = "") -> Failure:
    """`causes` are reason, field and message."""
    qualified = f"{kind}.{group}" if group else kind
    texts = [f"{field}: {message}" for _, field, message in causes]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = {
        "name": name,
        "kind": kind,
        "causes": [{"reason": reason, "message": message, "field": field} for reason, field, message in causes],
    } | ({"group": group} if group else {})
    return Failure(422, f'{qualified} "{name}" is invalid: {text}', details=details)


def expired(message: str, metadata: dict[str, Any] | None = None) -> Failure:
    return Failure(410, message, "Expired", metadata=metadata)


def from_the_future(wanted: int, current: int) -> Failure:
    return Failure(
        504,
        f"Too large resource version: {wanted}, current: {current}",
        "Timeout",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        retry_after_s=1,
    )
