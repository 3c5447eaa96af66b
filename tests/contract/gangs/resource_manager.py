"""The resource manager that gets killed: it knows nothing but what it hears, so a successor needs nothing from it.

It lists what there is, registers, reports, asks for what is not bound, and then does what the scheduler says: binds
pods, ends placeholders that are to be replaced, and confirms that once they are gone. If the scheduler is lost, it
begins anew.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import uvloop

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import Client, ResourceManager, ResyncRequired, SchedulerError, SchedulerUnreachable
from tests.contract.gangs import requests
from tests.contract.gangs.api_server import HOST, LINE_BYTES_MAX, LOST, STARTED
from tests.contract.gangs.truth import Plan, Pod

RM_ID = "gangs"
APPLICATIONS_FIRST, NODES_FIRST, TOGETHER = ORDERS = ("applications-first", "nodes-first", "together")
"""Of the reports after a registration. SI promises no order between streams, so all of them have to do."""
REGISTER_TIMEOUT_S = 20.0


class ApiClient:
    """The connection to the API server. Raises `ConnectionError` when that is gone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()

    async def call(self, **request: object) -> tuple[list[Pod], list[str], bool]:
        """Returns the pods that were created, or that there are; those that are gone; and whether all is done.

        A session that is cancelled meanwhile leaves no answer behind that the next one would take for its own.
        """
        answer = await asyncio.shield(self._exchange(request))
        return [Pod(**pod) for pod in answer["pods"]], answer["gone"], answer["done"]

    async def _exchange(self, request: dict[str, object]) -> dict[str, Any]:
        async with self._turn:
            self._writer.write(json.dumps(request).encode() + b"\n")
            await self._writer.drain()
            line = await self._reader.readline()
        if not line:
            raise ConnectionResetError("the API server has gone")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def until_closed(self) -> None:
        await self._reader.read()

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


class Session(ResourceManager):
    """From one registration until the scheduler is lost."""

    def __init__(self, api: ApiClient, plan: Plan, target: str, writes_max: int) -> None:
        self._api = api
        self._plan = plan
        self._writes_max = writes_max
        self._target = target
        self._nodes_accepted = self._applications_accepted = 0
        self._heard = asyncio.Event()
        self._writes: list[tuple[str, str]] = []
        """Pods to bind to a node, or with '' to delete."""
        self._releases: dict[str, si_pb2.AllocationRelease] = {}
        """By pod: what to confirm when it is gone."""
        self._pods: dict[str, str] = {}
        """By UUID of an allocation."""
        self._problem = ""

    async def run(self, order: str, why: str) -> None:
        """Returns when all is done and the API server goes; raises `SchedulerError` when the scheduler is lost."""
        pods, _, done = await self._api.call(list=why)
        async with Client(
            self._target,
            self,
            rm_id=RM_ID,
            config=requests.queue_file(self._plan),
            connect_timeout_s=REGISTER_TIMEOUT_S,
            reconnect_timeout_s=0,
            resync=False,
        ):
            await self._api.call(registered=True)
            await self._report([pod for pod in pods if pod.node], order)
            self._ask([pod for pod in pods if not pod.node])
            while not done:
                done = await self._go_on()
            await self._api.call(settled=True)
            await self._api.until_closed()

    async def _report(self, bound: list[Pod], order: str) -> None:
        self._pods.update((pod.uid, pod.name) for pod in bound)
        if order == APPLICATIONS_FIRST:
            self._report_applications()
            await self._until_accepted(nodes=0)
            self._report_nodes(bound)
        elif order == NODES_FIRST:
            self._report_nodes(bound)
            await self.client.drain()
            self._report_applications()
        else:
            self._report_applications()
            self._report_nodes(bound)
        await self._until_accepted(nodes=self._plan.nodes)

    def _report_applications(self) -> None:
        self.client.send(requests.applications(self._plan))

    def _report_nodes(self, bound: list[Pod]) -> None:
        for request in requests.nodes(self._plan, bound):
            self.client.send(request)

    async def _until_accepted(self, *, nodes: int) -> None:
        while self._nodes_accepted < nodes or self._applications_accepted < self._plan.gangs:
            await self._hear()

    def _ask(self, pods: list[Pod]) -> None:
        for request in requests.asks(pods):
            self.client.send(request)

    async def _go_on(self) -> bool:
        """Does what the scheduler has said since, or waits until it says something. Returns whether all is done."""
        if not self._writes:
            await self._hear()
        writes, self._writes = self._writes[: self._writes_max], self._writes[self._writes_max :]
        created, gone, done = await self._api.call(writes=writes)
        self._ask(created)
        for request in requests.confirmations([self._releases.pop(name) for name in gone]):
            self.client.send(request)
        return done

    async def _hear(self) -> None:
        await self._heard.wait()
        self._heard.clear()
        if self._problem:
            await self._api.call(problem=self._problem)
            await self._api.until_closed()

    # What the client hands over, message by message.

    def take_nodes(self, response: si_pb2.NodeResponse) -> None:
        self._nodes_accepted += len(response.accepted)
        for rejected in response.rejected:
            self._problem = f"node {rejected.nodeID} is rejected: {rejected.reason}"
        self._heard.set()

    def take_applications(self, response: si_pb2.ApplicationResponse) -> None:
        self._applications_accepted += len(response.accepted)
        for rejected in response.rejected:
            self._problem = f"application {rejected.applicationID} is rejected: {rejected.reason}"
        for updated in response.updated:
            if updated.state not in ("Accepted", "Starting", "Running"):
                self._problem = f"application {updated.applicationID} is {updated.state}: {updated.message}"
        self._heard.set()

    def take_allocations(self, response: si_pb2.AllocationResponse) -> None:
        for new in response.new:
            self._pods[new.UUID] = new.allocationKey
            self._writes.append((new.allocationKey, new.nodeID))
        for release in response.released:
            name = self._pods.pop(release.UUID, "")
            if name and release.terminationType == si_pb2.PLACEHOLDER_REPLACED:
                self._writes.append((name, ""))
                self._releases[name] = release
            else:
                kind = si_pb2.TerminationType.Name(release.terminationType)
                self._problem = f"allocation {release.UUID} ({name or 'unknown'}) is released as {kind}"
        for withdrawn in response.releasedAsks:
            if withdrawn.terminationType != si_pb2.STOPPED_BY_RM:  # else it confirms what was taken back
                self._problem = f"ask {withdrawn.allocationKey} is withdrawn: {withdrawn.message}"
        for refused in response.rejected:
            self._problem = f"ask {refused.allocationKey} is rejected: {refused.reason}"
        self._heard.set()


async def main(target: str, api_port: int, plan: Plan, order: str, writes_max: int) -> None:
    """Runs until the API server goes; does up to `writes_max` things at a time before it goes on hearing."""
    api = ApiClient(*await asyncio.open_connection(HOST, api_port, limit=LINE_BYTES_MAX))
    over, why = False, STARTED
    while not over:
        try:
            await Session(api, plan, target, writes_max).run(order, why)
            over = True
        except (ResyncRequired, SchedulerUnreachable) as error:
            sys.stderr.write(f"begins anew: {error}\n")
            why = LOST
        except SchedulerError as error:
            await api.call(problem=str(error))
            over = True
    await api.close()


if __name__ == "__main__":
    _target, _api_port, _plan, _order, _writes_max = sys.argv[1:]
    uvloop.run(main(_target, int(_api_port), Plan(**json.loads(_plan)), _order, int(_writes_max)))
