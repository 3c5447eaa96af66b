"""Ids of applications at the daemon, which knows no namespaces: `NAMESPACE.ID`, or `ID` where ids are bare.

Nothing but these two functions knows that: the qualified id exists between here and the daemon only.
"""

from __future__ import annotations

from schedulerd.kubernetes.metadata.application_ids import ApplicationId, ApplicationIds


def to_daemon(application: ApplicationId) -> str:
    return f"{application.namespace}.{application.name}" if application.namespace else application.name


def from_daemon(text: str, ids: ApplicationIds) -> ApplicationId:
    """A namespace has no dot, so the first one ends it."""
    if ids is ApplicationIds.BARE:
        return ApplicationId("", text)
    namespace, _, name = text.partition(".")
    return ApplicationId(namespace, name)
