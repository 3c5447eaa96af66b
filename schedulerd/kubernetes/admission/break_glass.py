"""Asks the API server whether somebody may have a queue ConfigMap stored that is not validated."""

from __future__ import annotations

import msgspec

from schedulerd.kubernetes.admission.rules.review import UserInfo
from schedulerd.kubernetes.api import AnswerUnusable, Resource, Transport
from schedulerd.kubernetes.api.errors import UNDECODABLE
from schedulerd.kubernetes.api.transport import Request

ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
ACCESS_SECONDS = 2.0
VERB, GROUP, RESOURCE = "break-glass", "schedulerd.io", "queueconfigurations"
"""The right that a Role has to give: there are no such objects, as there are none of many verbs."""


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status = _Status()


async def may_break_glass(transport: Transport, user: UserInfo, namespace: str, name: str) -> bool:
    """Raises `ApiError` if the API server does not say."""
    attributes = {"namespace": namespace, "name": name, "verb": VERB, "group": GROUP, "resource": RESOURCE}
    spec = {
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups or (),
        "extra": user.extra or {},
        "resourceAttributes": attributes,
    }
    body = {"apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.kind, "spec": spec}
    request = Request(
        "POST", ACCESS_REVIEWS, ACCESS_REVIEWS.path(), body=msgspec.json.encode(body), seconds_max=ACCESS_SECONDS
    )
    answer = await transport.request(request)
    try:
        return msgspec.json.decode(answer.body, type=_Review).status.allowed
    except UNDECODABLE as error:
        raise AnswerUnusable(f"{request}: not what was asked for: {error}") from error
