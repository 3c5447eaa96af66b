"""The client of the shim itself, on the fake and on the real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from schedulerd.kubernetes.api import (
    EventQueue,
    Recorder,
    Reflector,
    Result,
    Synced,
    Transport,
    WatchEvent,
    WatchSettings,
    WritePool,
    get,
    knows,
    server_version,
)
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.api.pool import PoolCaller
from schedulerd.kubernetes.api.writes import (
    Bind,
    Create,
    CreateLease,
    Delete,
    LeaseRecord,
    Outcome,
    Patch,
    Reference,
    UpdateLease,
    Write,
)
from schedulerd.kubernetes.api.writes.leases import lease_of
from schedulerd.kubernetes.objects.meta import micro_time
from tests.kubernetes.api.world import Thing, word
from tests.kubernetes.contract.api import LIMIT_SECONDS, Api

OTHER_UID = "00000000-0000-0000-0000-000000000000"


class Client:
    """Transport, pool, and a watch of the pods of the namespace."""

    def __init__(self, transport: Transport, namespace: str, page_objects: int) -> None:
        self.transport = transport
        self.pool = WritePool(transport)
        self.queue = EventQueue()
        self.events: list[WatchEvent] = []
        settings = WatchSettings(page_objects=page_objects)
        self.reflector = Reflector(
            transport, r.PODS, Thing, self.queue.put, namespace=namespace, settings=settings, random=lambda: 0.0
        )

    @property
    def story(self) -> list[str]:
        return [word(event) for event in self.events]

    async def until(self, is_done: Callable[[list[str]], bool]) -> list[str]:
        async with asyncio.timeout(LIMIT_SECONDS):
            while not is_done(self.story):
                _, events = await self.queue.get()
                self.events += events
        return self.story


@asynccontextmanager
async def client(api: Api, page_objects: int = 500) -> AsyncIterator[Client]:
    one = Client(api.transport(), api.namespace, page_objects)
    task = asyncio.create_task(one.reflector.run())
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await one.pool.close()
        await one.transport.close()
        await asyncio.sleep(0.1 if api.is_real else 0)  # an orderly end of TLS


async def test_pods_are_listed_in_pages_and_watched(api: Api) -> None:
    for name in "abcde":
        await api.pod(name)
    async with client(api, page_objects=2) as one:
        assert await one.until(lambda story: "=" in story) == ["+a", "+b", "+c", "+d", "+e", "="]
        await api.bind("a", "n1")
        await api.delete(r.PODS, "b")
        await api.pod("f")
        story = await one.until(lambda story: "+f" in story)
        assert story[6:] == ["~a", "~b", "-b", "+f"]


async def test_after_an_expired_watch_deletions_are_told(api: Api) -> None:
    for name in "abc":
        await api.pod(name)
    async with client(api) as one:
        await one.until(lambda story: "=" in story)
        # As if this version were too old: the next watch starts from one that no server knows any longer.
        one.reflector._version = ""
        one.reflector._cause = "expired"
        one.reflector._cache.objects[api.namespace, "ghost"] = msgspec.convert(
            {"metadata": {"name": "ghost", "namespace": api.namespace, "uid": "u", "resourceVersion": "1"}}, Thing
        )
        await one.reflector._start_over()
        story = await one.until(lambda story: story.count("=") == 2)
        assert story[-2:] == ["?ghost", "="]
        assert one.events[-1] == Synced(is_first=False)


async def test_every_kind_of_write(api: Api) -> None:
    pod = await api.pod("a")
    uid = pod["metadata"]["uid"]
    async with client(api) as one:
        submit = one.pool.submit
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
        status = {"status": {"conditions": [condition]}}
        patched = await submit(Patch(r.PODS, api.namespace, "a", uid, status))
        assert patched.result is Result.DONE
        assert (await submit(Patch(r.PODS, api.namespace, "a", OTHER_UID, status))).result is Result.GONE
        assert (await submit(Patch(r.PODS, api.namespace, "none", uid, status))).result is Result.GONE
        assert (await submit(Bind(api.namespace, "a", uid, "n1"))).result is Result.DONE
        assert (await submit(Bind(api.namespace, "a", uid, "n1"))).result is Result.DONE
        taken = await submit(Bind(api.namespace, "a", uid, "n2"))
        assert (taken.result, taken.node) == (Result.CONFLICT, "n1")
        assert (await submit(Bind(api.namespace, "a", OTHER_UID, "n2"))).result is Result.GONE
        assert (await submit(Bind(api.namespace, "none", uid, "n2"))).result is Result.GONE
        assert (await submit(Delete(r.PODS, api.namespace, "a", OTHER_UID))).result is Result.GONE
        assert (await submit(Delete(r.PODS, api.namespace, "a", uid))).result is Result.DONE
        assert (await submit(Bind(api.namespace, "a", uid, "n2"))).result is Result.CONFLICT
        assert (await submit(Delete(r.PODS, api.namespace, "a", uid, grace_period_s=0))).result is Result.DONE
        assert (await submit(Delete(r.PODS, api.namespace, "a", uid))).result is Result.GONE
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}
        body["spec"] = {"containers": [{"name": "m", "image": "pause"}]}
        encoded = msgspec.json.encode(body)
        created = await submit(Create(r.PODS, api.namespace, "b", encoded))
        assert created.result is Result.DONE
        exists = await submit(Create(r.PODS, api.namespace, "b", encoded))
        assert exists.result is Result.EXISTS
        uids = [msgspec.json.decode(one.object)["metadata"]["uid"] for one in (created, exists)]
        assert uids[0] == uids[1]
        assert (await submit(Create(r.PODS, "nowhere-at-all", "b", encoded))).result is Result.GONE
        refused = await submit(Create(r.PODS, api.namespace, "c", b'{"metadata":{"name":"c"},"spec":{}}'))
        assert refused.result is Result.REFUSED
        assert refused.code in (400, 422)


async def test_leases(api: Api) -> None:
    async with client(api) as one:
        caller = PoolCaller(one.transport, None, 10.0)

        async def submit(write: Write) -> Outcome:
            outcome = await write.attempt_once(caller)
            assert isinstance(outcome, Outcome)
            return outcome

        record = LeaseRecord("a", 15, micro_time(1.0), micro_time(1.0), 0)
        created = await submit(CreateLease(api.namespace, "l", record))
        assert created.result is Result.DONE
        assert (await submit(CreateLease(api.namespace, "l", LeaseRecord("b", 15)))).result is Result.CONFLICT
        version = lease_of(created.object).metadata.resource_version
        renewed = LeaseRecord("a", 15, micro_time(1.0), micro_time(3.5), 0)
        assert (await submit(UpdateLease(api.namespace, "l", renewed, version))).result is Result.DONE
        # The same once more, as after a lost answer: it is there.
        again = await submit(UpdateLease(api.namespace, "l", renewed, version))
        assert (again.result, lease_of(again.object).spec) == (Result.DONE, renewed)
        late = await submit(UpdateLease(api.namespace, "l", LeaseRecord("b", 15), version))
        assert (late.result, lease_of(late.object).spec) == (Result.CONFLICT, renewed)


async def test_events(api: Api) -> None:
    async with client(api) as one:
        recorder = Recorder(one.pool, "schedulerd", "schedulerd-0")
        pod = Reference("Pod", "a", "uid-a", api.namespace)
        for _ in range(2):
            outcome = await recorder.record(pod, "FailedScheduling", "Scheduling", "no room", is_warning=True)
            assert outcome.result is Result.DONE, outcome
        (event,) = (await api.get(r.EVENTS)).json["items"]
        assert event["series"]["count"] == 2
        assert event["regarding"]["uid"] == "uid-a"
        node = Reference("Node", f"{api.namespace}-n1", "n1")
        outcome = await recorder.record(node, "Registered", "Registering", "node is known")
        assert outcome.result is Result.DONE, outcome


async def test_single_reads(api: Api) -> None:
    await api.pod("a")
    async with client(api) as one:
        found = await get(one.transport, r.PODS, api.namespace, "a", Thing)
        assert found is not None
        assert found.metadata.name == "a"
        assert await get(one.transport, r.PODS, api.namespace, "none", Thing) is None
        assert await knows(one.transport, r.PODS)
        assert not await knows(one.transport, r.Resource("example.com", "v1", "things", "Thing"))
        assert (await server_version(one.transport)).git_version
