"""The id by which the daemon knows an application of a namespace: `NAMESPACE.ID`, or `ID` where ids are bare.

The daemon has no namespaces. In the shim these two functions alone make and read such ids; everywhere else an
application is an `ApplicationId`.
"""

from __future__ import annotations

from schedulerd.kubernetes.metadata.application_ids import ApplicationId, ApplicationIds


def to_daemon(application: ApplicationId) -> str:
    """The id of the application at the daemon."""
    return f"{application.namespace}.{application.name}" if application.namespace else application.name


def from_daemon(text: str, ids: ApplicationIds) -> ApplicationId:
    """The application that the daemon knows by this id. A namespace has no dot, so the first dot ends it."""
    if ids is ApplicationIds.BARE:
        return ApplicationId("", text)
    namespace, _, name = text.partition(".")
    return ApplicationId(namespace, name)
