"""Makes `config/kubernetes` from the chart, for clusters without helm: `make manifests`.

`python -m tests.kubernetes.chart.plain_manifests`
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tests.kubernetes.chart.helm import render_text
from tests.kubernetes.rights import MANIFESTS

VALUES: dict[str, Any] = {"gangs": {"podGroups": True}}
"""The server is not asked what it has."""
OF_ADMISSION: dict[str, Any] = {"admission": {"enabled": True, "impact": {"enabled": False}}}
"""Which is applied to a scheduler that has been made without it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A file of `config/kubernetes`."""

    head: str
    templates: tuple[str, ...]
    values: dict[str, Any] = field(default_factory=lambda: VALUES)
    kube_version: str = "1.37"


FILES = {
    "rbac.yaml": Manifest(
        """\
# The namespace of schedulerd, its service account, and what the shim may do.
""",
        ("serviceaccount.yaml", "rbac.yaml"),
    ),
    "schedulerd.yaml": Manifest(
        """\
# The queue file, and schedulerd itself. Before: build the image with the Dockerfile, replace the image below, and apply
# rbac.yaml.
""",
        ("queues.yaml", "deployment.yaml", "service.yaml"),
    ),
    "policies.yaml": Manifest(
        """\
# How others treat schedulerd: drains, network, priority of its requests. schedulerd runs without them. FlowSchemas of
# v1 need Kubernetes 1.29.
""",
        ("poddisruptionbudget.yaml", "networkpolicy.yaml", "flowschemas.yaml"),
    ),
    "admission/rbac.yaml": Manifest(
        """\
# What the admission webhooks may do, and the Secret of their certificates. Before: apply ../rbac.yaml.
""",
        (
            "admission/serviceaccount.yaml",
            "admission/rbac.yaml",
            "admission/break-glass.yaml",
            "admission/certificates.yaml",
        ),
        OF_ADMISSION,
    ),
    "admission/deployment.yaml": Manifest(
        """\
# The admission webhooks. Before: build the image with the Dockerfile, replace the image below, and apply rbac.yaml.
""",
        ("admission/deployment.yaml", "admission/service.yaml", "admission/policies.yaml"),
        OF_ADMISSION,
    ),
    "admission/webhooks.yaml": Manifest(
        """\
# What the API server asks the webhooks, and what it refuses itself, from Kubernetes 1.30 on. Apply this last, when the
# webhooks are ready. The caBundle is written by them.
""",
        ("admission/webhooks.yaml", "admission/users-policy.yaml"),
        OF_ADMISSION,
    ),
    "admission/webhooks-before-1.30.yaml": Manifest(
        """\
# What the API server asks the webhooks, before Kubernetes 1.30, instead of webhooks.yaml. Apply this last, when the
# webhooks are ready. The caBundle is written by them.
""",
        ("admission/webhooks.yaml",),
        OF_ADMISSION,
        "1.29",
    ),
}
"""By name."""
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: schedulerd\n"
OF_HELM = re.compile(r"^ *(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE)


def texts() -> dict[str, str]:
    """The files by name. Raises `HelmFailed`."""
    found = {}
    for name, manifest in FILES.items():
        rendered = render_text(manifest.values, kube_version=manifest.kube_version)
        documents = [OF_HELM.sub("", rendered[one]).removeprefix("---\n") for one in manifest.templates]
        if name == "rbac.yaml":
            documents.insert(0, NAMESPACE)
        head = f"{manifest.head}# Made from charts/schedulerd by `make manifests`; see docs/{page(name)}.\n"
        found[name] = head + "---\n".join(documents)
    return found


def page(name: str) -> str:
    return "admission.md" if name.startswith("admission/") else "install.md"


def main() -> None:
    for name, text in texts().items():
        (MANIFESTS / name).write_text(text)


if __name__ == "__main__":
    main()
