"""Pods that come, run and go on a real API server that is killed now and then, and what was done with them.

The load is the user and the kubelets, over HTTP: what cannot be said while nobody answers is said again. No pod
of a gang ends while another one waits, as only pods with nodes tell a shim that starts that their gang has run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from random import Random
from typing import Any

import aiohttp

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.accounts import State, disagreements
from tests.kubernetes.contract.api import STRATEGIC, Answer, Api

APPLICATIONS = 5
SIZES = ("100m", "250m", "500m")
GANG = "gang"
GANG_EVERY, MEMBERS = 15, 3
"""After so many single pods comes a gang of so many, with placeholder pods and without in turn."""
PLACEHOLDER = "schedulerd.io/placeholder"
WAITING_MAX = 100
AGAIN_SECONDS = 0.1
LOOK_SECONDS = 0.3
_BUSY = frozenset({429, 500, 502, 503, 504})
_GONE = 1
Object = dict[str, Any]


class RealLoad:
    """`nodes_of` has the nodes of every pod in the order in which they were seen: more than one is a double bind."""

    def __init__(self, api: Api, scheduler: str, random: Random) -> None:
        self.random = random
        self.scheduler = scheduler
        self.made = self.gangs = 0
        self.nodes_of: dict[str, list[str]] = {}
        """By uid."""
        self.placeholders: set[str] = set()
        """Uids of placeholder pods that were seen."""
        self._api = api

    async def make_nodes(self, count: int, cpu: str) -> None:
        amounts = {"cpu": cpu, "memory": "64Gi", "pods": "500"}
        for number in range(count):
            name = f"n{number}"
            await self._call("POST", r.NODES.path(), {"metadata": {"name": name}})
            status = {"status": {"allocatable": amounts, "capacity": amounts}}
            await self._call("PATCH", r.NODES.path("", name, "status"), status)

    async def run(self, pods: int, is_away: Callable[[], bool]) -> None:
        """Makes so many pods, while others run and end."""
        last = self.made + pods
        while self.made < last:
            waiting, running = await self._look()
            room = min(last - self.made, max(0, WAITING_MAX - len(waiting)))
            await asyncio.gather(*(self._make() for _ in range(room)))
            await asyncio.gather(*(self._make_gang() for _ in range(room // GANG_EVERY)))
            if not is_away():
                await self._happen(_that_may_end(waiting, running))
            await asyncio.sleep(LOOK_SECONDS)

    async def settle(self, seconds: float) -> None:
        """No pod is made any longer; running ones end as others wait, until all are bound."""
        end_s = asyncio.get_running_loop().time() + seconds
        while True:
            waiting, running = await self._look()
            if not waiting:
                return
            assert asyncio.get_running_loop().time() < end_s, _described(waiting, running)
            await asyncio.gather(*map(self._end, _that_may_end(waiting, running)[:20]))
            await asyncio.sleep(LOOK_SECONDS)

    async def agrees(self, state: State, rm_id: str, seconds: float = 60.0) -> None:
        """Waits until daemon and API server agree about every pod, and no placeholder is left; no pod was ever on two
        nodes."""
        end_s = asyncio.get_running_loop().time() + seconds
        while True:
            pods, nodes = [await self._items(one) for one in (r.PODS, r.NODES)]
            found = await asyncio.to_thread(disagreements, pods, nodes, state, rm_id, {self.scheduler})
            found += [f"placeholder {pod['metadata']['name']} is left" for pod in pods if _is_placeholder(pod)]
            if not found:
                break
            assert asyncio.get_running_loop().time() < end_s, "\n".join(found[:20])
            await asyncio.sleep(LOOK_SECONDS)
        twice = {uid: nodes for uid, nodes in self.nodes_of.items() if len(nodes) > 1}
        assert not twice, f"bound twice: {twice}"

    async def _happen(self, running: list[Object]) -> None:
        """Pods run, end and are deleted."""
        self.random.shuffle(running)
        ending = len(running) // 4
        gone = self.random.randint(0, _GONE)
        await asyncio.gather(
            *(self._end(pod) for pod in running[:ending]),
            *(self._delete(pod) for pod in running[ending : ending + gone]),
        )

    async def _make(self) -> None:
        name = f"p{self.made}"
        self.made += 1
        requests = {"cpu": self.random.choice(SIZES), "memory": "64Mi"}
        await self._create(name, f"app{self.random.randrange(APPLICATIONS)}", requests, {})

    async def _make_gang(self) -> None:
        self.gangs += 1
        application, requests = f"{GANG}{self.gangs}", {"cpu": "100m", "memory": "64Mi"}
        group = {"name": "g", "minMember": MEMBERS, "minResource": requests}
        annotations = {
            "schedulerd.io/task-groups": json.dumps([group]),
            "schedulerd.io/task-group-name": "g",
            "schedulerd.io/placeholders": ("always", "none")[self.gangs % 2],
        }
        members = (self._create(f"{application}-{one}", application, requests, annotations) for one in range(MEMBERS))
        await asyncio.gather(*members)

    async def _create(self, name: str, application: str, requests: dict[str, str], annotations: dict[str, str]) -> None:
        labels = {"queue": "root.default", "applicationId": application}
        spec = {
            "schedulerName": self.scheduler,
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": requests}}],
        }
        body = {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec}
        answer = await self._call("POST", self._api.path(r.PODS), body)
        assert answer.status in (201, 409), answer  # 409: it was made, and the answer was lost

    async def _end(self, pod: Object) -> None:
        """It succeeds, and is tidied up."""
        path = self._api.path(r.PODS, pod["metadata"]["name"])
        await self._call("PATCH", f"{path}/status", {"status": {"phase": "Succeeded"}})
        await self._delete(pod)

    async def _delete(self, pod: Object) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        await self._call("DELETE", self._api.path(r.PODS, pod["metadata"]["name"]), body)

    async def _look(self) -> tuple[list[Object], list[Object]]:
        """Pods without a node, and pods on nodes; of all that have not ended."""
        pods = [pod for pod in await self._items(r.PODS) if pod["status"].get("phase") not in ("Succeeded", "Failed")]
        await asyncio.gather(*(self._delete(pod) for pod in pods if _is_left(pod)))
        for pod in pods:
            node, seen = pod["spec"].get("nodeName"), self.nodes_of.setdefault(pod["metadata"]["uid"], [])
            if node and seen[-1:] != [node]:
                seen.append(node)
        self.placeholders.update(pod["metadata"]["uid"] for pod in pods if _is_placeholder(pod))
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        return waiting, [pod for pod in pods if pod["spec"].get("nodeName")]

    async def _items(self, resource: r.Resource) -> list[Object]:
        return list((await self._call("GET", self._api.path(resource))).json["items"])

    async def _call(self, method: str, path: str, body: Any = None) -> Answer:
        """Again and again, until there is an answer."""
        content_type = STRATEGIC if method == "PATCH" else "application/json"
        while True:
            try:
                answer = await self._api.call(method, path, body, content_type=content_type)
            except (aiohttp.ClientError, OSError):  # of time, too
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if answer.status not in _BUSY:
                return answer
            await asyncio.sleep(AGAIN_SECONDS)


def _gang(pod: Object) -> str:
    """The application of a pod that is in a gang; empty of any other."""
    name = str((pod["metadata"].get("labels") or {}).get("applicationId", ""))
    return name if name.startswith(GANG) else ""


def _that_may_end(waiting: list[Object], running: list[Object]) -> list[Object]:
    waits = {_gang(pod) for pod in waiting} - {""}
    return [pod for pod in running if not _is_placeholder(pod) and _gang(pod) not in waits]


def _is_left(pod: Object) -> bool:
    """The server was killed between the two writes of a deletion. Kubelets and the pod garbage collection finish it."""
    return bool(pod["metadata"].get("deletionGracePeriodSeconds") == 0)


def _described(waiting: list[Object], running: list[Object]) -> str:
    """Which pods wait, and what they say of it."""
    lines = [f"{len(waiting)} pods wait, {len(running)} run"]
    for pod in waiting:
        said = [one.get("message", "") for one in pod["status"].get("conditions") or () if one["status"] == "False"]
        lines.append(f"{pod['metadata']['name']} waits: {said}")
    lines += [f"{pod['metadata']['name']} is on {pod['spec']['nodeName']}" for pod in running]
    return "\n".join(lines[:40])


def _is_placeholder(pod: Object) -> bool:
    return (pod["metadata"].get("annotations") or {}).get(PLACEHOLDER) == "true"
