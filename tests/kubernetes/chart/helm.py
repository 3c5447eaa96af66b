"""Runs helm, where it is: in the folder of KUBEBUILDER_ASSETS, or on the PATH."""

from __future__ import annotations

import atexit
import copy
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

CHART = Path(__file__).parents[3] / "charts" / "schedulerd"
SECONDS_MAX = 60.0
SOURCE = re.compile(r"^# Source: schedulerd/templates/(\S+)$", re.MULTILINE)
CUSTOM = (
    "monitoring.coreos.com/v1/PodMonitor",
    "monitoring.coreos.com/v1/PrometheusRule",
    "scheduling.x-k8s.io/v1alpha1/PodGroup",
)
"""Kinds that the chart uses where the server has them."""

JSON = dict[str, Any]


class HelmFailed(Exception):
    """helm has refused; the message is its own."""


def program() -> Path | None:
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if folder and os.access(Path(folder, "helm"), os.X_OK):
        return Path(folder, "helm")
    found = shutil.which("helm")
    return None if found is None else Path(found)


needs_helm = pytest.mark.skipif(program() is None, reason="there is no helm in KUBEBUILDER_ASSETS or on the PATH")


@cache
def environment() -> dict[str, str]:
    """Nothing of the user's own settings; helm keeps its files in a folder that is thrown away."""
    folder = tempfile.mkdtemp(prefix="helm-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBECONFIG"))}
    return {**kept, "HOME": folder}


def run(*arguments: str, given: str = "") -> str:
    """Its output. Raises `HelmFailed`."""
    helm = program()
    assert helm is not None
    done = subprocess.run(
        [str(helm), *arguments], input=given, capture_output=True, text=True, timeout=SECONDS_MAX, env=environment()
    )
    if done.returncode != 0:
        raise HelmFailed(done.stderr)
    return done.stdout


def render_text(
    values: JSON | None = None,
    *,
    release: str = "schedulerd",
    namespace: str = "schedulerd",
    kube_version: str = "",
    api_versions: Collection[str] = (),
) -> dict[str, str]:
    """What the chart makes of these values, by template. Raises `HelmFailed`."""
    flags = ["--namespace", namespace, "--values", "-"]
    if kube_version:
        flags += ["--kube-version", kube_version]
    for one in api_versions:
        flags += ["--api-versions", one]
    return dict(_rendered(release, tuple(flags), json.dumps(values or {})))


@cache
def _rendered(release: str, flags: tuple[str, ...], values: str) -> dict[str, str]:
    text = run("template", release, str(CHART), *flags, given=values)
    found: dict[str, str] = {}
    for document in re.split(r"^---\n", text, flags=re.MULTILINE):
        if source := SOURCE.search(document):
            body = SOURCE.sub("", document).strip() + "\n"
            found[source[1]] = f"{found[source[1]]}---\n{body}" if source[1] in found else body
    return found


def render(values: JSON | None = None, **options: Any) -> list[JSON]:
    """The objects."""
    return _objects(render_text(values, **options).values())


def scheduler(values: JSON | None = None, **options: Any) -> list[JSON]:
    """Those of daemon and shim."""
    found = render_text(values, **options)
    return _objects(text for name, text in found.items() if not name.startswith("admission/"))


def admission(values: JSON | None = None, **options: Any) -> list[JSON]:
    """Those of the webhooks, which are turned on unless the values say otherwise."""
    values = values or {}
    found = render_text({**values, "admission": {"enabled": True, **values.get("admission", {})}}, **options)
    return _objects(text for name, text in found.items() if name.startswith("admission/"))


def _objects(texts: Iterable[str]) -> list[JSON]:
    return [copy.deepcopy(one) for text in texts for one in _loaded(text)]


@cache
def _loaded(text: str) -> list[JSON]:
    """Refuses a key that is there twice."""
    return [one for one in YAML(typ="safe").load_all(text) if one is not None]


def one_of(objects: list[JSON], kind: str, name: str = "") -> JSON:
    (found,) = [one for one in objects if one["kind"] == kind and name in ("", one["metadata"]["name"])]
    return found
