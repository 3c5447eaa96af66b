"""A real API server with the manifests of `config/kubernetes/admission`, and `schedulerd admission` as a process.

The API server finds the process through a Service of type ExternalName, so that names and certificates are those of the
manifests; only ports are others. The process has the rights of its manifest and no others. People are impersonated.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.kubernetes.contract.real_server import RealServer, write_kubeconfig

MANIFESTS = Path(__file__).parents[3] / "config" / "kubernetes"
NAMESPACE = "schedulerd"
CONTROLLER = "contract"
"""As whom the controllers of the test are authenticated."""
KUBECTL_SECONDS = 60.0
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["create", "get", "list", "update", "patch", "delete"]}

JSON = dict[str, Any]


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    error: str


class Cluster:
    """The API server, as an administrator and as others see it."""

    def __init__(self, real: RealServer, folder: Path) -> None:
        self._real = real
        self._home = folder
        self.folder = folder

    def try_(self, *arguments: str, user: str = "", given: JSON | str | None = None) -> Said:
        """What kubectl says, with `dev` as the group of a user; without a user as administrator."""
        who = ["--as", user, "--as-group", "dev", "--as-group", "system:authenticated"] if user else []
        text = given if isinstance(given, str) else json.dumps(given) if given is not None else ""
        done = subprocess.run(
            [str(self._real.kubectl), "--kubeconfig", str(self._real.kubeconfig), *who, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=KUBECTL_SECONDS,
            env={**os.environ, "HOME": str(self._home)},
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str, user: str = "", given: JSON | str | None = None) -> str:
        said = self.try_(*arguments, user=user, given=given)
        assert said.code == 0, f"kubectl {' '.join(arguments)}: {said.error}{said.out}"
        return said.out

    def get(self, kind: str, name: str = "", namespace: str = "") -> JSON:
        where = ["-n", namespace] if namespace else []
        found: JSON = json.loads(self("get", kind, *([name] if name else []), *where, "-o", "json"))
        return found

    def create(self, document: JSON, user: str = "ann", *flags: str) -> JSON:
        found: JSON = json.loads(self("create", "-f", "-", "-o", "json", *flags, user=user, given=document))
        return found

    def replace(self, document: JSON, user: str) -> JSON:
        found: JSON = json.loads(self("replace", "-f", "-", "-o", "json", user=user, given=document))
        return found

    def refused(self, document: JSON, user: str = "ann", *flags: str, verb: str = "create") -> str:
        said = self.try_(verb, "-f", "-", *flags, user=user, given=document)
        assert said.code != 0, said.out
        return said.error

    def token(self, account: str) -> str:
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
        return str(json.loads(self("create", "--raw", path, "-f", "-", given=body))["status"]["token"])

    def install(self, port: int) -> None:
        """Everything but the Deployment, with webhooks at a port of this machine."""
        self("apply", "-f", "-", given=namespace(NAMESPACE))
        self("apply", "-f", str(MANIFESTS / "admission" / "rbac.yaml"))
        self("apply", "-f", "-", given=service())
        for document in webhook_configurations(port):
            self("apply", "-f", "-", given=document)

    def team(self, name: str, annotations: JSON | None = None) -> None:
        """A namespace in which everybody of `dev` may do everything."""
        self("create", "-f", "-", given=namespace(name, annotations))
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
        self("create", "-f", "-", given={**role, "metadata": {"name": "dev", "namespace": name}, "rules": [EVERYTHING]})
        self("create", "rolebinding", "dev", "-n", name, "--role=dev", "--group=dev")


class Webhooks:
    """`schedulerd admission` as a process. A context."""

    def __init__(self, cluster: Cluster, port: int, *flags: str) -> None:
        config = cluster.folder / "admission-kubeconfig"
        write_kubeconfig(config, cluster._real.url, cluster.token("schedulerd-admission"), NAMESPACE)
        given = ("--kubeconfig", str(config), "--bind", f"127.0.0.1:{port}", "--http-bind", "127.0.0.1:0")
        self._command = [sys.executable, "-W", "error", "-m", "schedulerd", "admission", *given, *flags]
        self._environment = {
            **os.environ,
            "SCHEDULERD_ADMISSION_TRUSTED_USERS": CONTROLLER,
            "SCHEDULERD_ADMISSION_DRAIN_TIMEOUT_S": "0.5",
        }

    def __enter__(self) -> Webhooks:
        self._process = _Admission(self._command, self._environment)
        self._process.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.__exit__(None, None, None)

    @property
    def http_url(self) -> str:
        return self._process.url

    @property
    def log(self) -> list[str]:
        return self._process.lines

    def wait_for(self, event: str) -> JSON:
        return self._process.wait_for(event)

    def stop(self) -> int:
        return self._process.stop()


class _Admission:
    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        self.lines: list[str] = []
        self.url = ""

    def __enter__(self) -> _Admission:
        try:
            started = self.wait_for("webhooks on port")
            self.url = f"http://127.0.0.1:{started['http_port']}"
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(20.0)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def wait_for(self, event: str) -> JSON:
        """The next line of the log whose event has these words. The time of the test bounds it."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(line)
            with contextlib.suppress(ValueError):
                found: JSON = json.loads(line)
                if event in found["event"]:
                    return found
        raise AssertionError("".join(self.lines))

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait(20.0)


def namespace(name: str, annotations: JSON | None = None) -> JSON:
    """With the label that newer servers set themselves."""
    metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name}, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def service() -> JSON:
    metadata = {"name": "schedulerd-admission", "namespace": NAMESPACE}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def webhook_configurations(port: int) -> Iterator[JSON]:
    for document in YAML(typ="safe").load_all((MANIFESTS / "admission" / "webhooks-before-1.30.yaml").read_text()):
        for webhook in document["webhooks"]:
            webhook["clientConfig"]["service"]["port"] = port
        yield document


def bundle(cluster: Cluster, kind: str = "mutatingwebhookconfigurations") -> list[bytes]:
    found = cluster.get(kind, "schedulerd")["webhooks"]
    return [base64.b64decode(webhook["clientConfig"].get("caBundle") or "") for webhook in found]
