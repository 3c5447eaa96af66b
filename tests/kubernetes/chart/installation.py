"""The chart, installed by helm on a real API server, with a node that runs its containers as processes, and nodes for
pods of users, which are played."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.chart.helm import CHART, environment, program
from tests.kubernetes.chart.prometheus import Scrapes
from tests.kubernetes.contract.api import Api
from tests.kubernetes.contract.real_server import RealServer, write_kubeconfig
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.node.container import Image
from tests.kubernetes.node.kubelet import NodeKubelet, RunningPod
from tests.kubernetes.node.services import ServiceNetwork
from tests.packaging.dockerfile import parse

JSON = dict[str, Any]
REPOSITORY = CHART.parents[1]
LIMIT_SECONDS = 60.0
SHORT_LEASE = {"leaseDurationSeconds": 3, "renewDeadlineSeconds": 2, "retryPeriodSeconds": 0.5}
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments/{}"


def image(checkout: Path = REPOSITORY) -> Image:
    """The image of the Dockerfile: its command and variables, with a checkout for its files."""
    stage = parse((checkout / "Dockerfile").read_text())[-1]
    assert stage.last("ENTRYPOINT").words() == ["schedulerd"]
    variables = dict(word.split("=", 1) for word in stage.last("ENV").words())
    here = {"PATH": os.environ["PATH"], "PYTHONPATH": str(checkout)}
    return Image((sys.executable, "-m", "schedulerd"), {**variables, **here})


class Installation:
    """A context. The release, its namespace, its scheduler and its nodes have the name of the namespace."""

    def __init__(self, real: RealServer, name: str = "", repository: str = "schedulerd") -> None:
        """`repository`: of the image, in the values."""
        real.start_controllers()
        self._real = real
        self._repository = repository
        self.api = Api(real)
        if name:
            self.api.namespace = name
        self.name = self.api.namespace
        self.fullname = f"{self.name}-schedulerd"
        """Of most objects that the chart makes."""
        self._stack = contextlib.AsyncExitStack()
        self._nodes: list[str] = []
        self._is_installed = False

    async def __aenter__(self) -> Installation:
        try:
            await self._start()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if error is not None and self._is_started:
            print(self.kubelet.logs())
        try:
            if self._is_installed:
                await self.uninstall()
            for name in self._nodes:
                await self.api.delete(r.NODES, name)
        finally:
            await self._stack.aclose()

    _is_started = False

    async def _start(self) -> None:
        await self._stack.enter_async_context(self.api)
        self.kubeconfig = self._real.kubeconfig.with_name(f"kubeconfig-{self.name}")
        write_kubeconfig(self.kubeconfig, self._real.url, self._real.token, self.name)
        own = [await self.node(name, taints=[{"key": "own", "effect": "NoSchedule"}]) for name in ("own-1", "own-2")]
        self.kubelet = NodeKubelet(self.api, own, {self._repository: image()})
        await self._stack.enter_async_context(self.kubelet)
        if self._real.has_services:
            for namespace in ("kube-system", self.name):
                await self._label(namespace)
            self.network = ServiceNetwork(self.api, self.kubelet, self._real.services_socket)
            await self._stack.enter_async_context(self.network)
        await self._stack.enter_async_context(Kubelet(self.api, self.name, except_images=[self._repository]))
        self._is_started = True

    async def _label(self, namespace: str) -> None:
        """As servers from 1.21 on do themselves."""
        labels = {"kubernetes.io/metadata.name": namespace}
        answer = await self.api.patch(r.NAMESPACES, namespace, {"metadata": {"labels": labels}})
        assert answer.status == 200, answer

    @property
    def kubectl(self) -> Path:
        return self._real.kubectl

    async def node(self, name: str, **spec: Any) -> str:
        """Makes a node with 4 processors; its full name."""
        full = f"{self.name}-{name}"
        amounts = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        metadata = {"name": full, "labels": {"world": self.name, "kubernetes.io/hostname": full}}
        answer = await self.api.post(r.NODES, {"metadata": metadata, "spec": spec})
        assert answer.status == 201, answer
        self._nodes.append(full)
        answer = await self.api.patch(
            r.NODES, full, {"status": {"allocatable": amounts, "capacity": amounts}}, "status"
        )
        assert answer.status == 200, answer
        return full

    async def helm(self, *arguments: str, values: JSON | None = None) -> str:
        """Its output. Fails with its error."""
        helm = program()
        assert helm is not None
        flags = ["--kubeconfig", str(self.kubeconfig), "--namespace", self.name]
        if values is not None:
            flags += ["--values", "-"]
        process = await asyncio.create_subprocess_exec(
            str(helm),
            *arguments,
            *flags,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment(),
        )
        out, _ = await process.communicate(json.dumps(values or {}).encode())
        self.kubelet.check()
        assert process.returncode == 0, f"helm {' '.join(arguments)}: {out.decode()}"
        return out.decode()

    async def install(self, **values: Any) -> str:
        """Waits until the pods are ready."""
        self._is_installed = True
        return await self._apply("install", values)

    async def upgrade(self, **values: Any) -> str:
        return await self._apply("upgrade", values)

    async def _apply(self, command: str, values: JSON) -> str:
        given = {"schedulerNames": [self.name], "leaderElection": SHORT_LEASE, **values}
        return await self.helm(command, self.name, str(CHART), "--wait", f"--timeout={LIMIT_SECONDS:g}s", values=given)

    async def uninstall(self) -> None:
        self._is_installed = False
        await self.helm("uninstall", self.name, "--wait", f"--timeout={LIMIT_SECONDS:g}s")

    def running(self) -> list[RunningPod]:
        """schedulerd's own pods that are not being deleted."""
        return [pod for pod in self.kubelet.pods.values() if not pod.is_leaving.is_set()]

    async def leader(self) -> RunningPod:
        """Waits for it."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:
                for pod in (one for one in self.running() if "shim" in one.containers):
                    with contextlib.suppress(OSError):
                        if (await self.get("shim", "/leader", pod))[0] == 200:
                            return pod
                await asyncio.sleep(0.1)

    async def get(self, container: str, path: str, pod: RunningPod | None = None) -> tuple[int, str]:
        """From a container of a pod of schedulerd; without it, of the leader."""
        if pod is None:
            pod = await self.leader()
        ports = {"daemon": 9080, "shim": 9081, "admission": 9082}
        return await pod.sandbox.get(ports[container], path, LIMIT_SECONDS)

    async def samples(self, container: str, family: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each sample of this name."""
        _, text = await self.get(container, "/metrics")
        families = text_string_to_metric_families(text)
        return [(one.labels, one.value) for each in families for one in each.samples if one.name == family]

    async def scrape(self, scrapes: Scrapes) -> None:
        """All containers of schedulerd, once, as Prometheus does."""
        scraped = []
        for pod in self.running():
            for name in pod.containers:
                _, text = await self.get(name, "/metrics", pod)
                scraped.append((text, {"namespace": self.name, "pod": pod.name, "container": name}))
        scrapes.add(*scraped)

    async def pod(self, name: str, cpu: str = "1", metadata: JSON | None = None, **spec: Any) -> None:
        """Makes a pod for this scheduler."""
        container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
        fields = {"schedulerName": self.name, "containers": [container], "nodeSelector": {"world": self.name}, **spec}
        labels = {"queue": "root.default"}
        answer = await self.api.post(
            r.PODS, {"metadata": {"name": name, "labels": labels, **(metadata or {})}, "spec": fields}
        )
        assert answer.status == 201, answer

    async def until(self, is_reached: Callable[[dict[str, JSON]], bool]) -> dict[str, JSON]:
        """Pods of the namespace by name, when they are as wanted."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:
                self.kubelet.check()
                pods = {one["metadata"]["name"]: one for one in (await self.api.get(r.PODS)).json["items"]}
                if is_reached(pods):
                    return pods
                await asyncio.sleep(0.1)

    async def until_running(self, *names: str) -> dict[str, JSON]:
        return await self.until(lambda pods: all(phase(pods.get(name)) == "Running" for name in names))


def phase(pod: JSON | None) -> str:
    return "" if pod is None else str(pod.get("status", {}).get("phase", ""))


def node_of(pod: JSON) -> str:
    return str(pod["spec"].get("nodeName", ""))


def condition_of(pod: JSON, kind: str) -> JSON:
    """Empty if there is none."""
    found = (one for one in pod.get("status", {}).get("conditions") or () if one["type"] == kind)
    return next(found, {})


def log_events(pod: RunningPod, container: str) -> list[JSON]:
    """The JSON lines that the container has written."""
    text = pod.containers[container].log.read_text()
    return [json.loads(line) for line in re.findall(r"^\{.*\}$", text, re.MULTILINE)]
