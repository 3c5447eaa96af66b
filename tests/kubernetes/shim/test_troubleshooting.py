"""Every command of `docs/troubleshooting.md` shows what the page says, in a cluster that has all of its symptoms."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from click.testing import CliRunner

from schedulerd.cli import cli
from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.shim.conftest import on_both
from tests.kubernetes.shim.world import JSON, LIMIT_SECONDS, World

PAGE = Path(__file__).parents[3] / "docs" / "troubleshooting.md"
SYMPTOM = re.compile(r"^### (.+?)\n\n```sh\n(.+?)```\n\n```text\n(.+?)```\n", re.MULTILINE | re.DOTALL)
SYMPTOMS_MIN = 20
QUEUES = """
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: default}
          - name: small
            resources: {max: {vcore: 1500m}}
          - name: single
            maxapplications: 1
          - {name: greedy}
          - name: team
            resources: {guaranteed: {vcore: 2}}
            properties: {preemption.delay: 1s}
          - name: polite
            properties: {preemption.delay: 1s}
          - name: typed
            resources: {max: {vcore: 0}}
"""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
VICTIMS = ("greedy-0", "greedy-1", "greedy-2", "greedy-3")


class Symptom(NamedTuple):
    title: str
    commands: list[str]
    lines: list[str]
    """What they print; `...` stands for anything."""


def symptoms() -> list[Symptom]:
    found = SYMPTOM.findall(PAGE.read_text())
    return [Symptom(title, commands.splitlines(), lines.splitlines()) for title, commands, lines in found]


@pytest.fixture
def daemon_flags(tmp_path: Path) -> tuple[str, ...]:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    return ("--config", str(file), "--preemption-attempt-s", "0.2", "--queue-file-poll-s", "0.2")


class Cluster:
    """Each symptom has a node of its own, which its pods choose."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def make(self) -> None:
        world = self._world
        for name in ("n1", "n2", "n3", "n4", "n5", "n6"):
            await world.node(name, labels={"pool": name}, cpu="4")
        await world.start()
        await self._quotas()
        await self._gangs()
        await self._preemption()
        await self._large_pod()

    async def _pod(
        self,
        name: str,
        node: str,
        queue: str = "default",
        application: str = "",
        metadata: JSON | None = None,
        **how: Any,
    ) -> None:
        labels = {"queue": f"root.{queue}", "applicationId": application or name}
        selector = {"pool": node, "world": self._world.api.namespace}
        await self._world.pod(name, metadata={"labels": labels, **(metadata or {})}, nodeSelector=selector, **how)

    async def _quotas(self) -> None:
        await self._pod("runs", "n1", "small", "nightly")
        await self._pod("one", "n1", "single", cpu="100m")
        await self._world.until_bound("runs", "one")
        await self._pod("waiting", "n1", "small", "nightly")
        await self._pod("two", "n1", "single", cpu="100m")
        await self._pod("lost", "n1", "missing")
        await self._pod("typed", "n1", "typed", cpu="100m")
        await self._odd_pods()

    async def _odd_pods(self) -> None:
        terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": str(number)}}} for number in range(101)]
        affinity: JSON = {"podAntiAffinity": {REQUIRED: terms}}
        await self._pod("verbose", "n1", cpu="100m", affinity=affinity)
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "a", "uid": "a-deleted-one", "controller": True}
        name = {"key": "metadata.name", "operator": "In", "values": [self._world.node_name("n1")]}
        affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [name]}]}}}
        await self._pod("agent", "n1", cpu="100m", metadata={"ownerReferences": [owner]}, affinity=affinity)

    async def _gangs(self) -> None:
        for number in range(2):
            await self._pod(f"train-{number}", "n2", application="train", metadata=self._group("n2", 6))
        await self._pod("spark-0", "n5", application="spark", metadata=self._group("n5", 3))
        await self._pod("narrow-0", "n6", application="narrow", metadata=self._group("n6", 2, cpu="500m"))
        await self._world.until_bound("spark-0", "narrow-0")

    def _group(self, node: str, members: int, cpu: str = "1") -> JSON:
        group = {
            "name": "workers",
            "minMember": members,
            "minResource": {"cpu": cpu, "memory": "64Mi"},
            "nodeSelector": {"pool": node, "world": self._world.api.namespace},
        }
        task_groups = json.dumps([group])
        return {"annotations": {"schedulerd.io/task-groups": task_groups, "schedulerd.io/task-group-name": "workers"}}

    async def _preemption(self) -> None:
        for name in VICTIMS:
            await self._pod(name, "n3", "greedy", "greedy", terminationGracePeriodSeconds=600)
        await self._world.until_bound(*VICTIMS)
        await self._pod("polite", "n3", "polite")
        await self._pod("team", "n3", "team")

    async def _large_pod(self) -> None:
        await self._pod("first", "n4", cpu="3")
        await self._world.until_bound("first")
        await self._pod("big", "n4", cpu="4")
        await self._world.until_told("Pod", "big", "FailedScheduling")
        while "n4" not in await asyncio.to_thread(self._reserved):  # noqa: ASYNC110 - the daemon tells nothing of it
            await asyncio.sleep(0.1)
        await self._pod("overtaker", "n4", cpu="1")

    def _reserved(self) -> str:
        return httpx.get(f"{self._world.daemon.url}/api/v1/reservations", timeout=LIMIT_SECONDS).text

    def preempted(self) -> str:
        """The name of the victim, which the page calls `preempted`."""
        deleted = [name for name in VICTIMS if "deletionTimestamp" in self._world.pods[name]["metadata"]]
        (victim,) = deleted
        return victim


COLLECTED = "A pod of a DaemonSet preempts nothing on its node"
"""The garbage collector of a real cluster deletes the pod, whose owner is not there, often before it is judged."""


class Terminal:
    """Runs the commands of the page. Its namespace is `default`, its daemon at `localhost:9080`."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world = world
        self._names = {"preempted": cluster.preempted()}

    async def run(self, command: str) -> str:
        words = [self._names.get(word, word) for word in shlex.split(command)]
        match words:
            case ["schedulerd", *arguments]:
                text = await asyncio.to_thread(self._schedulerd, arguments)
            case ["kubectl", "describe", "pod", name]:
                text = await self._kubectl(name, "describe", "pod", name)
            case ["kubectl", "get", "events", "--field-selector", field]:
                text = await self._kubectl(field.rpartition("=")[2], *words[1:])
            case ["curl", "-s", url, *rest]:
                text = await asyncio.to_thread(self._curl, url, rest)
            case _:
                raise AssertionError(f"the page has a command that is not known here: {command}")
        namespace = self._world.api.namespace
        return text.replace(f"{namespace}-", "").replace(namespace, "default")

    def _schedulerd(self, arguments: list[str]) -> str:
        given = [one.replace("default/", f"{self._world.api.namespace}/") for one in arguments]
        environment = {"SCHEDULERD_CONTEXTS": "/nonexistent/contexts.yaml"}
        return CliRunner().invoke(cli, [*given, "--server", self._world.daemon.url], env=environment).output

    def _curl(self, url: str, rest: list[str]) -> str:
        answer = httpx.get(url.replace("localhost:9080", self._world.daemon.url), timeout=LIMIT_SECONDS).text
        match rest:
            case []:
                return answer
            case ["|", "grep", *options, pattern] if options in ([], ["-E"]):
                return "\n".join(line for line in answer.splitlines() if re.search(pattern, line))
        raise AssertionError(f"the page has a command that is not known here: {rest}")

    async def _kubectl(self, name: str, *words: str) -> str:
        """What kubectl prints of this pod; with the fake its events."""
        api = self._world.api
        if not api.is_real:
            events = (await api.get(r.EVENTS)).json["items"]
            return "\n".join(f"{one['reason']} {one['note']}" for one in events if one["regarding"]["name"] == name)
        kubectl = Path(os.environ["KUBEBUILDER_ASSETS"]) / "kubectl"
        way = ("--server", api.url, "--insecure-skip-tls-verify", "--namespace", api.namespace)
        token = api.headers["Authorization"].removeprefix("Bearer ")
        process = await asyncio.create_subprocess_exec(
            kubectl, *way, "--token", token, *words, stdout=asyncio.subprocess.PIPE
        )
        return (await process.communicate())[0].decode()


def missing(symptom: Symptom, printed: str) -> list[str]:
    """The lines of the page that were not printed."""
    there = [" ".join(line.split()) for line in printed.splitlines()]

    def is_there(line: str) -> bool:
        pattern = ".*".join(re.escape(part.strip()) for part in line.split("..."))
        return any(re.fullmatch(pattern.replace(".*", r"\s?.*\s?"), one) for one in there)

    return [line for line in symptom.lines if not is_there(" ".join(line.split()))]


def test_the_page_has_symptoms_with_commands_and_what_they_print() -> None:
    found = symptoms()
    assert len(found) == PAGE.read_text().count("\n### ") >= SYMPTOMS_MIN
    for one in found:
        assert one.commands and one.lines, one.title  # noqa: PT018 - one fact


def test_a_line_that_is_not_printed_is_noticed() -> None:
    symptom = Symptom("s", ["c"], ["... b ... d", "a  b", "vcore 1 ..."])
    assert missing(symptom, "a b c d\n a   b\nvcore 1") == []
    assert missing(symptom, "a b c\na bc\nvcore 2") == symptom.lines


@on_both
async def test_each_command_shows_the_cause(world: World, daemon_flags: tuple[str, ...]) -> None:
    cluster = Cluster(world)
    await cluster.make()
    await world.until(lambda pods: any("deletionTimestamp" in pods[name]["metadata"] for name in VICTIMS))
    queue_file = Path(daemon_flags[1])
    await asyncio.to_thread(queue_file.write_text, "partitions: [nonsense]")  # the last valid text stays in force
    terminal = Terminal(world, cluster)
    problems = []
    for symptom in symptoms():
        if world.api.is_real and symptom.title == COLLECTED:
            continue
        loop = asyncio.get_running_loop()
        end_s = loop.time() + LIMIT_SECONDS
        while True:  # reasons of pods are written some moments later
            printed = "\n".join([await terminal.run(command) for command in symptom.commands])
            left = missing(symptom, printed)
            if left and loop.time() >= end_s:
                problems.append(f"{symptom.title}: not printed: {left}\n{printed}")
            if not left or loop.time() >= end_s:
                break
            await asyncio.sleep(0.2)
    assert problems == [], "\n\n".join(problems)
