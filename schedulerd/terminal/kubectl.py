"""What `kubectl schedulerd` takes from kubectl: the namespace of the current context of its kubeconfig."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

DEFAULT_NAMESPACE = "default"
KUBECTL = "kubectl"
"""Name of the group of commands that is run for `kubectl schedulerd`."""
FILE_BYTES_MAX = 4 << 20
"""Of a kubeconfig; larger ones are passed over."""
_IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def is_plugin() -> bool:
    """Whether the command that runs is one of `kubectl schedulerd`."""
    context = click.get_current_context(silent=True)
    return context is not None and context.find_root().command.name == KUBECTL


def namespace_of_pods() -> str:
    """The namespace of a pod that is named without one."""
    return current_namespace() if is_plugin() else DEFAULT_NAMESPACE


def current_namespace() -> str:
    """The namespace that kubectl would use: that of the current context of its files, or that of the pod in which this
    runs if there is no file; else `default`."""
    files = kubeconfigs()
    contexts: dict[str, str] = {}
    current = ""
    for file in files:
        content = _read(file)
        current = current or _text(content.get("current-context"))
        for name, namespace in _namespaces(content):
            contexts.setdefault(name, namespace)
    if not current and not files:
        return _in_cluster() or DEFAULT_NAMESPACE
    return contexts.get(current) or DEFAULT_NAMESPACE


def kubeconfigs() -> list[Path]:
    """The files of `$KUBECONFIG`, or the one in the home directory; those that exist."""
    named = os.environ.get("KUBECONFIG", "")
    wanted = [Path(one) for one in named.split(os.pathsep) if one] if named else [Path.home() / ".kube" / "config"]
    return [one for one in wanted if one.is_file()]


def _read(file: Path) -> dict[str, Any]:
    """The content; nothing of a file that cannot be read, of which kubectl itself complains."""
    try:
        with file.open("rb") as opened:
            text = opened.read(FILE_BYTES_MAX + 1)
        content = YAML(typ="safe", pure=True).load(text) if len(text) <= FILE_BYTES_MAX else None
    except (OSError, YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _namespaces(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Contexts by name with their namespaces."""
    listed = content.get("contexts")
    found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return [
        (_text(one.get("name")), _text(inner.get("namespace")) if isinstance(inner := one.get("context"), dict) else "")
        for one in found
    ]


def _in_cluster() -> str:
    try:
        return _IN_CLUSTER.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
