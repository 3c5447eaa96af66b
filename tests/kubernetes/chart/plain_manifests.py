"""Makes `config/kubernetes` from the chart, for those who do not use helm: `make manifests`.

`python -m tests.kubernetes.chart.plain_manifests`
"""

from __future__ import annotations

import re

from tests.kubernetes.chart.helm import render_text
from tests.kubernetes.rights import MANIFESTS

VALUES = {"gangs": {"podGroups": True}}
"""Nobody can look what the server has."""
FILES = {
    "rbac.yaml": ["serviceaccount.yaml", "rbac.yaml"],
    "schedulerd.yaml": ["queues.yaml", "deployment.yaml", "service.yaml"],
    "policies.yaml": ["poddisruptionbudget.yaml", "networkpolicy.yaml", "flowschemas.yaml"],
}
"""Templates by name of the file."""
HEADS = {
    "rbac.yaml": """\
# The namespace of schedulerd, its service account, and what the shim may do.
""",
    "schedulerd.yaml": """\
# The queue file, and schedulerd itself. Before: build the image with the Dockerfile, replace the image below, and apply
# rbac.yaml.
""",
    "policies.yaml": """\
# How others treat schedulerd: drains, network, priority of its requests. schedulerd runs without them. FlowSchemas of
# v1 need Kubernetes 1.29.
""",
}
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: schedulerd\n"
OF_HELM = re.compile(r"^ *(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE)


def texts() -> dict[str, str]:
    """The files by name. Raises `HelmFailed`."""
    rendered = {name: OF_HELM.sub("", text) for name, text in render_text(VALUES).items()}
    found = {}
    for name, templates in FILES.items():
        documents = [rendered[template].removeprefix("---\n") for template in templates]
        if name == "rbac.yaml":
            documents.insert(0, NAMESPACE)
        head = f"{HEADS[name]}# Made from charts/schedulerd by `make manifests`; see docs/install.md.\n"
        found[name] = head + "---\n".join(documents)
    return found


def main() -> None:
    for name, text in texts().items():
        (MANIFESTS / name).write_text(text)


if __name__ == "__main__":
    main()
