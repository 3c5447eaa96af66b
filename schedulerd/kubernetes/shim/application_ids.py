"""The id by which the daemon knows an application of a namespace: `NAMESPACE.ID`, or `ID` where ids are bare.

The daemon has no namespaces. In the shim these functions alone make and read such ids; everywhere else an
application is an `ApplicationId`.
"""

from __future__ import annotations

import re

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


def in_words(text: str, own: ApplicationId) -> str:
    """A sentence of the daemon about an application, for the people of its namespace: with the ids that pods give the
    applications there. Applications of other namespaces are named with their namespace, as the daemon does."""
    if not own.namespace or own.namespace not in text:
        return text
    return re.sub(rf"\b(application|applicationID|gang) ('?){re.escape(own.namespace)}\.", r"\1 \2", text)
