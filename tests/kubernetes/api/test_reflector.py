"""Lists and watches as they should be, and what each fault of a server comes to."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from schedulerd.kubernetes.api import EventQueue, Resource, Synced, WatchEvent, WatchSettings, decoding
from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.api.world import Watched, World, pause, word
from tests.kubernetes.fake import Fault


async def test_objects_are_told_then_synced_then_every_change() -> None:
    async with World() as world:
        world.cluster.pod("a")
        world.cluster.pod("b", node="n1")
        pods = world.watch()
        await pause()
        assert pods.story == ["+a", "+b", "="]
        assert pods.reflector.is_synced
        pods.clear()
        world.cluster.pod("c")
        world.cluster.kubelet.run("default", "b")
        world.cluster.delete(r.PODS, "a")
        await pause()
        assert pods.story == ["+c", "~b", "~a", "-a"]
        assert world.metrics.lists == {("pods", "start"): 1}
        assert world.metrics.objects == {"pods": 2}


async def test_pages_are_told_one_after_the_other_and_synced_once() -> None:
    async with World() as world:
        for i in range(5):
            world.cluster.pod(f"p{i}")
        pods = world.watch(settings=WatchSettings(page_objects=2, watch_list=False))
        await pause()
        assert pods.story == ["+p0", "+p1", "+p2", "+p3", "+p4", "="]
        assert len(world.requests("GET", "limit=2")) == 3


async def test_a_list_whose_pages_expire_is_made_in_one() -> None:
    async with World() as world:
        for i in range(5):
            world.cluster.pod(f"p{i}")
        settings = WatchSettings(page_objects=2, watch_list=False)
        server = world.cluster.server
        original = server._list
        calls = 0

        def expire(request: object, target: object) -> object:
            nonlocal calls
            calls += 1
            if calls == 3:
                world.cluster.delete(r.PODS, "p0")
                server.expire_pages()
            return original(request, target)  # type: ignore[arg-type]

        server._list = expire  # type: ignore[method-assign,assignment]
        pods = world.watch(settings=settings)
        await pause()
        assert pods.story == ["+p0", "+p1", "+p2", "+p3", "+p4", "?p0", "="]
        assert calls == 4
        assert pods.state() == world.stored()


async def test_the_server_ends_watches_and_nothing_is_listed_again() -> None:
    async with World() as world:
        pods = world.watch()
        await pause(2_000.0)
        world.cluster.pod("a")
        await pause()
        assert pods.story == ["=", "+a"]
        assert len(world.requests("WATCH")) == 7  # 300 s each
        assert len(world.requests("GET")) == 1


async def test_what_comes_in_quick_succession_is_taken_together_and_what_comes_alone_at_once() -> None:
    batches: list[list[str]] = []

    async def deliver(_: Resource, batch: list[WatchEvent]) -> None:
        batches.append([word(event) for event in batch])

    async with World() as world:
        world.watch(settings=WatchSettings(pace_s=1.0, watch_list=False), deliver=deliver)
        await pause(5.0)
        for name in "abcd":
            world.cluster.pod(name)
            await pause(0.1)
        assert batches == [["="], ["+a"], ["+b"]], "the second comes soon after the first"
        await pause(1.0)
        assert batches[3:] == [["+c", "+d"]]
        await pause(5.0)
        world.cluster.pod("e")
        await pause()
        assert batches[4:] == [["+e"]]


async def test_a_cut_watch_goes_on_where_it_was() -> None:
    async with World() as world:
        world.cluster.faults.add(Fault("cut_watch", lines=1), times=2)
        pods = world.watch()
        await pause()
        for name in "abcd":
            world.cluster.pod(name)
        await pause(5.0)
        assert pods.story == ["=", "+a", "+b", "+c", "+d"]
        assert [name for name, _, _ in world.cluster.faults.happened] == ["cut_watch"] * 2
        assert len(world.requests("GET")) == 1


@pytest.mark.parametrize("by_line", [True, False], ids=["200 and an ERROR line", "410"])
async def test_after_a_gap_what_is_not_listed_was_deleted(by_line: bool) -> None:
    async with World() as world:
        world.cluster.server.expires_by_line = by_line
        for name in ("changed", "deleted", "remade", "same"):
            world.cluster.pod(name)
        pods = world.watch()
        await pause()
        pods.clear()
        await world.cluster.stop()
        world.cluster.kubelet.run("default", "changed")
        world.cluster.delete(r.PODS, "deleted")
        world.cluster.delete(r.PODS, "remade")
        world.cluster.pod("remade")
        world.cluster.pod("new")
        world.cluster.store.compact()
        await world.cluster.start()
        await pause(10.0)
        assert pods.story == ["~changed", "+new", "?remade", "+remade", "?deleted", "="]
        assert pods.events[-1] == Synced(is_first=False)
        assert world.metrics.lists["pods", "expired"] == 1
        assert world.metrics.replaced["pods"] == 1
        world.cluster.pod("later")
        await pause()
        assert pods.story[-1] == "+later"


async def test_a_server_that_always_says_expired_is_asked_less_and_less() -> None:
    async with World() as world:
        world.cluster.faults.add(Fault("refuse", code=410, reason="Expired"), method="WATCH", times=1000)
        world.watch()
        await pause(300.0)
        assert 8 < len(world.requests("WATCH")) < 20


async def test_a_version_that_the_server_has_not_seen_yet_is_waited_for_and_listed_anew() -> None:
    async with World() as world:
        text = "Too large resource version: 900, current: 100"
        world.cluster.faults.add(Fault("refuse", code=504, retry_after_s=1, message=text), method="WATCH")
        world.cluster.pod("a")
        pods = world.watch()
        await pause(5.0)
        assert pods.story == ["+a", "=", "="]
        assert world.metrics.lists["pods", "future"] == 1
        assert "resourceVersion" not in world.requests("GET")[1]


async def test_waits_double_up_to_half_a_minute_and_are_forgotten() -> None:
    async with World() as world:
        loop = asyncio.get_running_loop()
        at: list[float] = []
        original = world.cluster.faults.next

        def note(method: str, path: str, plural: str, subresource: str, name: str) -> Fault | None:
            at.append(loop.time())
            return original(method, path, plural, subresource, name)

        world.cluster.faults.next = note  # type: ignore[method-assign]
        world.cluster.faults.add(Fault("refuse", code=500), method="GET", times=8)
        pods = world.watch()
        await pause(200.0)
        gaps = [round(b - a, 1) for a, b in itertools.pairwise(at)]
        assert gaps[:8] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
        assert pods.reflector.is_synced
        assert pods.reflector.problem is None
        await pause(200.0)
        at.clear()
        world.cluster.faults.add(Fault("refuse", code=500), method="WATCH", times=1)
        for watch in world.cluster.server.watches:
            watch.end()
        await pause(5.0)
        assert round(at[1] - at[0], 1) == 0.8


async def test_a_server_that_pushes_back_is_left_alone_as_long_as_it_says_and_not_listed_again() -> None:
    async with World() as world:
        world.cluster.faults.add(Fault("refuse", code=429, retry_after_s=7), method="WATCH")
        world.cluster.pod("a")
        pods = world.watch()
        await pause(6.9)
        assert len(world.requests("WATCH")) == 1
        await pause(0.2)
        assert len(world.requests("WATCH")) == 2
        assert pods.story == ["+a", "="]


async def test_watches_that_end_at_once_are_failures() -> None:
    async with World() as world:
        world.cluster.faults.add(Fault("end_watch", lines=0), times=1000)
        world.watch()
        await pause(100.0)
        assert len(world.requests("WATCH")) < 10
        assert world.metrics.watches["pods", "short"] >= 6


async def test_a_stalled_watch_is_noticed_and_opened_again() -> None:
    async with World() as world:
        world.cluster.faults.add(Fault("stall_watch", lines=1))
        pods = world.watch()
        await pause()
        world.cluster.pod("a")
        world.cluster.pod("b")
        await pause(149.0)
        assert pods.story == ["=", "+a"]
        await pause(2.0)
        assert pods.story == ["=", "+a", "+b"]
        assert world.metrics.watches["pods", "stalled"] == 1


async def test_a_server_that_answers_nothing_is_given_up_and_asked_again() -> None:
    async with World() as world:
        world.cluster.faults.add(Fault("hang"), method="GET")
        pods = world.watch()
        await pause(119.0)
        assert pods.reflector.problem is None
        await pause(3.0)
        assert pods.story == ["="]


async def test_bookmarks_move_the_version_along() -> None:
    async with World() as world:
        pods = world.watch()
        await pause()
        for i in range(10):
            world.cluster.create(r.CONFIG_MAPS, f"c{i}")
        world.cluster.server.bookmark()
        await pause()
        world.cluster.store.compact()
        for watch in world.cluster.server.watches:
            watch.end()
        await pause(5.0)
        world.cluster.pod("a")
        await pause()
        assert pods.story == ["=", "+a"]
        assert world.metrics.lists == {("pods", "start"): 1}


async def test_a_slow_consumer_stops_the_reading_and_loses_nothing() -> None:
    async with World() as world:
        world.cluster.server.watch_lines_max = 50
        queue = EventQueue(events_max=10)
        pods = world.watch(deliver=queue.put)
        await pause()
        assert await queue.get() == (r.PODS, [Synced(is_first=True)])
        padding = {"image": "x" * 60_000, "name": "main"}
        for i in range(300):
            world.cluster.pod(f"p{i:03}", containers=[padding])
            await pause(0.001)
        assert len(queue) < 50
        told: list[object] = []
        seen = Watched.__new__(Watched)
        seen.events = []
        while len(set(told)) < 300:
            _, events = await queue.get()
            seen.events += events
            told += [event.object.metadata.name for event in events if not isinstance(event, Synced)]
        assert seen.state() == world.stored()
        assert pods.reflector.is_synced


async def test_a_resource_that_comes_and_goes() -> None:
    async with World() as world:
        groups = world.watch(r.POD_GROUPS, may_be_absent=True)
        await pause()
        assert groups.story == ["="]
        assert groups.reflector.is_absent
        world.cluster.install()
        world.cluster.create(r.POD_GROUPS, "g")
        await pause(61.0)
        assert groups.story == ["=", "+g", "="]
        world.cluster.uninstall()
        await pause(61.0)
        assert groups.state() == {}
        assert groups.reflector.is_absent
        assert groups.reflector.problem is None


async def test_a_resource_that_may_not_be_seen() -> None:
    async with World() as world:
        world.cluster.faults.add(Fault("refuse", code=403, message="no"), plural="daemonsets", times=2)
        sets = world.watch(r.DAEMON_SETS, may_be_forbidden=True, metadata_only=True)
        await pause()
        assert (sets.story, sets.reflector.is_forbidden) == (["="], True)
        assert "no" in str(sets.reflector.problem)
        world.cluster.create(r.DAEMON_SETS, "d")
        await pause(61.0)
        assert sets.story == ["="]
        await pause(61.0)
        assert (sets.story, sets.reflector.is_forbidden) == (["=", "+d", "="], False)
        assert sets.reflector.problem is None


async def test_a_resource_that_must_be_there_is_a_problem() -> None:
    async with World() as world:
        groups = world.watch(r.POD_GROUPS)
        await pause()
        assert "could not find the requested resource" in str(groups.reflector.problem)
        assert not groups.reflector.is_synced


async def test_what_rbac_forbids_is_a_problem_until_it_allows_it() -> None:
    async with World() as world:
        world.cluster.server.forbidden.add(("GET", "pods"))
        pods = world.watch()
        await pause(10.0)
        assert "cannot list resource" in str(pods.reflector.problem)
        world.cluster.server.forbidden.clear()
        await pause(30.0)
        assert pods.story == ["="]
        assert pods.reflector.problem is None


async def test_objects_that_the_type_cannot_hold_are_passed_over() -> None:
    async with World() as world:
        world.cluster.pod("a")
        world.cluster.create(r.CONFIG_MAPS, "good", spec={})
        world.cluster.create(r.CONFIG_MAPS, "odd", spec=[1])
        maps = world.watch(r.CONFIG_MAPS)
        await pause()
        assert maps.story == ["+good", "="]
        world.cluster.create(r.CONFIG_MAPS, "odder", spec=7)
        world.cluster.create(r.CONFIG_MAPS, "better", spec={})
        await pause()
        assert maps.story == ["+good", "=", "+better"]
        assert world.metrics.undecodable == {"configmaps": 2}


async def test_an_event_without_end_makes_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        monkeypatch.setattr(decoding, "LINE_BYTES_MAX", 500_000)
        pods = world.watch()
        await pause()
        world.cluster.pod("large", containers=[{"name": "m", "image": "x" * 3_000_000}])
        await pause(5.0)
        assert pods.state() == world.stored()
        assert world.metrics.lists["pods", "unusable"] == 1


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b'{"type":"NEWS","object":{}}\n',
        b'{"type":"ADDED","object":[]}\n',
        b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}\n',
        b'{"type":"ADDED","object":' + b"[" * 100_000 + b"\n",
    ],
    ids=["text", "type", "list", "not UTF-8", "deep"],
)
async def test_a_line_that_is_no_event_makes_a_list(line: bytes) -> None:
    async with World() as world:
        pods = world.watch()
        await pause()
        (watch,) = world.cluster.server.watches
        watch.add(line)
        await pause(5.0)
        assert pods.story == ["=", "="]
        world.cluster.pod("a")
        await pause()
        assert pods.story[-1] == "+a"


async def test_an_error_that_is_not_about_the_version_keeps_the_place() -> None:
    async with World() as world:
        pods = world.watch()
        await pause()
        (watch,) = world.cluster.server.watches
        watch.error({"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd"})
        world.cluster.pod("a")
        await pause(5.0)
        assert pods.story == ["=", "+a"]
        assert len(world.requests("GET")) == 1


async def test_selected_objects_only() -> None:
    async with World() as world:
        world.cluster.pod("a")
        world.cluster.pod("b")
        pods = world.watch(field_selector="status.phase!=Succeeded,status.phase!=Failed")
        await pause()
        world.cluster.kubelet.succeed("default", "a")
        await pause()
        assert pods.story == ["+a", "+b", "=", "-a"]


async def test_the_time_of_a_watch_is_drawn() -> None:
    async with World() as world:
        world.watch(random=lambda: 0.5)
        await pause()
        (path,) = world.requests("WATCH")
        assert "timeoutSeconds=450" in path
