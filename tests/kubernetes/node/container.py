"""One container as a process: its namespaces, mounts, user, environment and command line, and its probes."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import shlex
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.kubernetes.node.sandbox import API_HOST, API_PORT, Sandbox
from tests.kubernetes.node.volumes import field_of

JSON = dict[str, Any]
KUBERNETES = {"KUBERNETES_SERVICE_HOST": API_HOST, "KUBERNETES_SERVICE_PORT": str(API_PORT)}


@dataclass(frozen=True)
class Image:
    """What an image brings: its ENTRYPOINT and ENV. Its files are those of this machine."""

    entrypoint: tuple[str, ...]
    environment: Mapping[str, str]


@cache
def _etc() -> Path:
    """A copy of /etc, in which volumes can be mounted."""
    folder = Path(mkdtemp(prefix="etc-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with contextlib.suppress(shutil.Error):  # what only root may read is not needed
        shutil.copytree("/etc", folder, symlinks=True, dirs_exist_ok=True)
    return folder


class Container:
    """Of a pod that has its sandbox and volumes."""

    def __init__(
        self, pod: JSON, spec: JSON, sandbox: Sandbox, volumes: Mapping[str, Path], links: Mapping[str, str]
    ) -> None:
        """`links`: the variables of Services, for pods that want them."""
        self._pod = pod
        self._spec = spec
        self._sandbox = sandbox
        self._volumes = volumes
        self._links = links
        self.name = str(spec["name"])
        self.log = sandbox.folder / f"{self.name}.log"
        self.restarts = 0
        self.is_started = self.is_ready = False
        """By their probes; without one, when the process runs."""
        self.exit_codes: list[int] = []
        """Of each process that has ended."""
        self._failures = 0
        self._next_liveness_s = 0.0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    async def start(self, image: Image) -> None:
        if self._process is not None:
            self.restarts += 1
        self.is_started = self.is_ready = False
        self._failures = 0
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command(image), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, cwd="/"
            )

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def ended(self) -> None:
        """Waits until the process has ended, and notes its exit code."""
        if self._process is not None:
            self.exit_codes[self.restarts :] = [await self._process.wait()]

    async def probe(self, kind: str) -> bool:
        """`startupProbe`, `livenessProbe` or `readinessProbe`, once; without one it is as it should be."""
        probe = self._spec.get(kind)
        if probe is None:
            return True
        ports = {port["name"]: port["containerPort"] for port in self._spec.get("ports") or () if "name" in port}
        action = probe["httpGet"]
        try:
            port = ports.get(action["port"], action["port"])
            status, _ = await self._sandbox.get(int(port), action["path"], probe.get("timeoutSeconds", 1))
        except OSError:
            return False
        return 200 <= status < 400

    async def check_liveness(self, now_s: float) -> None:
        """Tries the liveness probe when it is due, and ends a container that has failed it too often in a row."""
        probe = self._spec.get("livenessProbe")
        if probe is None or not self.is_started or now_s < self._next_liveness_s:
            return
        self._next_liveness_s = now_s + probe.get("periodSeconds", 10)
        self._failures = 0 if await self.probe("livenessProbe") else self._failures + 1
        if self._failures >= probe.get("failureThreshold", 3):
            self.signal(signal.SIGKILL)

    def command(self, image: Image) -> list[str]:
        context = {**(self._pod["spec"].get("securityContext") or {}), **(self._spec.get("securityContext") or {})}
        user, group = context.get("runAsUser", 0), context.get("runAsGroup", 0)
        assert user or not context.get("runAsNonRoot"), f"container {self.name} must not run as root"
        environment = self._environment(image)
        words = [*(self._spec.get("command") or image.entrypoint), *(self._spec.get("args") or ())]
        for name, value in environment.items():
            words = [word.replace(f"$({name})", value) for word in words]
        inner = ["unshare", "--user", f"--map-user={user}", f"--map-group={group}"]
        if context.get("allowPrivilegeEscalation") is False:
            inner += ["setpriv", "--no-new-privs"]
        inner += ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *words]
        script = "\n".join([*self._mounts(), *_read_only(context), f"exec {shlex.join(inner)}"])
        join = ["nsenter", "--target", str(self._sandbox.pid), "--user", "--net", "--uts", "--preserve-credentials"]
        return [*join, "unshare", "--mount", "--propagation", "private", "sh", "-ec", script]

    def _environment(self, image: Image) -> dict[str, str]:
        found = {**image.environment, "HOSTNAME": self._pod["metadata"]["name"], **KUBERNETES}
        if self._pod["spec"].get("enableServiceLinks", True):
            found |= self._links
        for entry in self._spec.get("env") or ():
            source = entry.get("valueFrom")
            given = entry.get("value", "") if source is None else field_of(self._pod, source["fieldRef"]["fieldPath"])
            found[entry["name"]] = str(given)
        return found

    def _mounts(self) -> list[str]:
        """Lines of the script that make the file system of the container."""
        lines = [f"echo {shlex.quote(self._pod['metadata']['name'])} >/proc/sys/kernel/hostname"]
        lines += [f"mount --bind {_etc()} /etc", "mount -t tmpfs tmpfs /run"]
        lines.append(f"mount --bind {self._sandbox.folder / 'hosts'} /etc/hosts")
        for mount in self._spec.get("volumeMounts") or ():
            assert not mount.keys() & {"subPath", "subPathExpr"}, "a volume with subPath is never updated"
            target = mount["mountPath"].replace("/var/run/", "/run/")
            assert target.startswith(("/etc/", "/run/")), f"teach tests/kubernetes/node to mount at {target}"
            lines += [f"mkdir -p {target}", f"mount --bind {self._volumes[mount['name']]} {target}"]
            if mount.get("readOnly"):
                lines.append(f"mount -o remount,bind,ro {target}")
        return lines


def _read_only(context: JSON) -> list[str]:
    """Everything but the volumes, and what the kernel makes."""
    if not context.get("readOnlyRootFilesystem"):
        return []
    return ["for at in / /etc /run; do mount -o remount,bind,ro $at; done"]
