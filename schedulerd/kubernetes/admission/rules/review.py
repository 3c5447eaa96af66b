"""AdmissionReview of admission.k8s.io/v1: read from bytes with bounds, and answered."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from schedulerd.settings.problems import shorten

BODY_BYTES_MAX = 7 * 1024 * 1024
"""Of one review: the API server takes objects of up to 3 MiB, and sends the new and the old one."""
DEPTH_MAX = 200
"""How deep lists and objects may be nested."""
BRACKETS_MAX = 400_000
"""Opening brackets of lists and objects, those in texts included."""
QUOTES_MAX = 600_000
"""Quotation marks, those in texts included."""
WARNINGS_MAX = 15
WARNING_CHARACTERS_MAX = 250
"""The API server cuts warnings of more than 256 characters, and all together at 4,096."""
MESSAGE_CHARACTERS_MAX = 4_000

API_VERSION = "admission.k8s.io/v1"
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class ReviewUnusable(ValueError):
    """What was sent is no review, or is larger than allowed; the text says which."""


class UserInfo(msgspec.Struct, frozen=True):
    """Who sent the request, as the API server has authenticated them."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class RequestedResource(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    resource: str = ""


class AdmissionRequest(msgspec.Struct, rename="camel"):
    uid: str
    resource: RequestedResource
    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    user_info: UserInfo = UserInfo()
    name: str = ""
    """Empty at a CREATE whose name the server makes up."""
    namespace: str = ""
    sub_resource: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: AdmissionRequest | None = None


_REVIEW = msgspec.json.Decoder(_Review)


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a request."""

    refusal: str = ""
    """Why the request is refused; empty if it is allowed."""
    patch: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = field(default=())
    """Sentences that kubectl shows to the person."""

    @property
    def is_allowed(self) -> bool:
        return not self.refusal


ALLOWED = Decision()


def read_review(body: bytes) -> AdmissionRequest:
    """The request in a body. Raises ReviewUnusable."""
    _check_bounds(body)
    try:
        review = _REVIEW.decode(body)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise ReviewUnusable(f"not an AdmissionReview: {error}") from None
    if review.kind != "AdmissionReview" or review.api_version != API_VERSION or review.request is None:
        found = shorten(f"{review.kind} of {review.api_version}")
        raise ReviewUnusable(f"{found!r} is not supported; send an AdmissionReview of {API_VERSION} with a request")
    for name, found_object in (("object", review.request.object), ("oldObject", review.request.old_object)):
        _check_shape(name, found_object)
    return review.request


def _check_shape(name: str, document: dict[str, Any] | None) -> None:
    """The API server sends nothing else; what follows relies on it."""
    metadata = (document or {}).get("metadata")
    maps = [metadata, (document or {}).get("spec")]
    if isinstance(metadata, dict):
        maps += [metadata.get("labels"), metadata.get("annotations")]
    if not all(isinstance(one, dict | None) for one in maps):
        raise ReviewUnusable(f"request.{name}: metadata, labels, annotations and spec must be objects")


def _check_bounds(body: bytes) -> None:
    """Of its depth and of the number of its parts, in time that grows with the length only."""
    if len(body) > BODY_BYTES_MAX:
        raise ReviewUnusable(f"the body has more than {BODY_BYTES_MAX} bytes, which is the most that is read")
    if body.count(b"[") + body.count(b"{") > BRACKETS_MAX or body.count(b'"') > QUOTES_MAX:
        raise ReviewUnusable(
            f"the body has more than {BRACKETS_MAX} lists and objects, or {QUOTES_MAX} quotation marks"
        )
    depth = 0
    # Each of these calls is fast: they hold the interpreter's lock, and so the event loop, also from a thread.
    parts = body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    outside_texts = b"".join(parts[::2])
    for bracket in outside_texts.translate(None, _ALL_BUT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEPTH_MAX:
            raise ReviewUnusable(f"lists and objects are nested deeper than {DEPTH_MAX} levels")


def write_review(request: AdmissionRequest, decision: Decision) -> bytes:
    """The AdmissionReview that answers the request."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": decision.is_allowed}
    if not decision.is_allowed:
        message = decision.refusal[:MESSAGE_CHARACTERS_MAX]
        response["status"] = {"status": "Failure", "code": 403, "reason": "Forbidden", "message": message}
    elif decision.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(decision.patch)).decode()
    if decision.warnings:
        response["warnings"] = bounded_warnings(decision.warnings)
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})


def bounded_warnings(warnings: Iterable[str]) -> list[str]:
    """As many, and as much of each, as the API server passes on."""
    told = [_on_one_line(warning) for warning in warnings]
    if len(told) > WARNINGS_MAX:
        told[WARNINGS_MAX - 1 :] = [f"{len(told) - WARNINGS_MAX + 1} more warnings are not shown"]
    return told


def _on_one_line(text: str) -> str:
    """A header of HTTP carries each warning: no line ends, no control characters."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text[:1_000]).split())
    return line if len(line) <= WARNING_CHARACTERS_MAX else f"{line[: WARNING_CHARACTERS_MAX - 3]}..."
