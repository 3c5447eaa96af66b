"""Which namespaces' pods are given to the scheduler, and which get application ids."""

from __future__ import annotations

from dataclasses import dataclass

from schedulerd.kubernetes.admission.rules.patterns import Patterns
from schedulerd.kubernetes.metadata.names import annotation
from schedulerd.kubernetes.objects.meta import ObjectMeta

KUBE_SYSTEM = "kube-system"
ENABLED = ("namespace.enabled", "namespace.enableYuniKorn")
"""Annotations of a namespace: `true` or `false`; the first that says one of these wins."""
GENERATE_APP_ID = ("namespace.generateAppId",)


@dataclass(frozen=True, slots=True)
class NamespaceRules:
    own: str
    """Where schedulerd itself runs."""
    process: Patterns
    """Namespaces whose pods are given to the scheduler; empty: all."""
    bypass: Patterns
    label: Patterns
    """Namespaces whose pods get application ids; empty: all."""
    no_label: Patterns

    def is_excluded(self, namespace: str) -> bool:
        """Whether nothing is ever changed or refused there, whatever is set."""
        return namespace in (KUBE_SYSTEM, self.own)

    def is_processed(self, namespace: str, metadata: ObjectMeta | None) -> bool:
        """`metadata` is that of the namespace; None if it is not known."""
        said = _said(metadata, ENABLED)
        return said if said is not None else _matches(namespace, self.process, self.bypass)

    def is_labelled(self, namespace: str, metadata: ObjectMeta | None) -> bool:
        said = _said(metadata, GENERATE_APP_ID)
        return said if said is not None else _matches(namespace, self.label, self.no_label)


def _matches(namespace: str, wanted: Patterns, unwanted: Patterns) -> bool:
    return (not wanted or wanted.matches(namespace)) and not unwanted.matches(namespace)


def _said(metadata: ObjectMeta | None, names: tuple[str, ...]) -> bool | None:
    if metadata is None:
        return None
    values = (annotation(metadata, name) for name in names)
    return next((value == "true" for value in values if value in ("true", "false")), None)
