"""What the page remembers beside the state: samples of the last hours, and the last queue file."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from schedulerd.core.language.facts.configuration import ConfigurationRejected, ConfigurationUpdated
from schedulerd.core.language.facts.queues import QueueChange, QueueChanged
from schedulerd.core.language.specs import ConfigurationText
from schedulerd.daemon.admin.ui import history as history_module
from schedulerd.daemon.admin.ui.history import PARTITIONS_MAX, QUEUES_SEEN_MAX, SAMPLE_SECONDS, SAMPLES_MAX
from schedulerd.daemon.admin.ui.queue_file_log import CHANGES_MAX, LOGS_MAX, QueueFileLog
from schedulerd.daemon.admin.ui.texts import clock_time
from tests.instants import at
from tests.unit.core.builders import RM, a_conversation, a_node, a_queue_spec, a_root, an_ask
from tests.unit.daemon.admin.ui.ui_world import UiWorld


def test_six_hours_are_remembered() -> None:
    assert SAMPLES_MAX * SAMPLE_SECONDS == 6 * 3_600
    world = UiWorld()

    async def act(client: httpx.AsyncClient) -> None:
        history = world.sources.history
        task = asyncio.ensure_future(history.run())
        await asyncio.sleep(SAMPLE_SECONDS * (SAMPLES_MAX + 50))
        (partition,) = world.sources.scheduler.cluster.partitions()
        samples = history.of(partition)
        assert len(samples) == SAMPLES_MAX
        assert (samples[-1].running, samples[-1].waiting, samples[-1].shares) == (1, 2, (187,))
        world.placements = 10
        assert history.per_minute(partition) == pytest.approx(10 / 0.75, rel=0.4)
        assert "Last 6 hours" in (await client.get("/ui/")).text
        task.cancel()

    world.run(act)


def test_full_queues_say_since_when() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}), root=a_root(a_queue_spec("a", max={"memory": 30})))
    talk.asks(an_ask("k", 30, count=2))
    talk.schedule()
    world = UiWorld(talk)

    async def act(client: httpx.AsyncClient) -> None:
        history = world.sources.history
        assert "Queue root.a is full (memory): 1 waiting<" in (await client.get("/ui/")).text
        await history.sample()
        (partition,) = world.sources.scheduler.cluster.partitions()
        since = dict(history.full_since(partition))
        assert list(since) == ["root.a"]
        await asyncio.sleep(60)
        await history.sample()
        assert history.full_since(partition) == since
        assert f"1 waiting, since {clock_time(since['root.a'])}" in (await client.get("/ui/")).text
        talk.release()
        await history.sample()
        assert history.full_since(partition) == {}

    world.run(act)


def test_so_many_queues_are_watched_for_being_full(monkeypatch: pytest.MonkeyPatch) -> None:
    assert QUEUES_SEEN_MAX == 500
    monkeypatch.setattr(history_module, "QUEUES_SEEN_MAX", 1)
    talk = a_conversation(a_node("n1", {"memory": 100}), root=a_root(a_queue_spec("a", max={"memory": 30})))
    talk.asks(an_ask("k", 30))
    talk.schedule()
    world = UiWorld(talk)

    async def act(_client: httpx.AsyncClient) -> None:
        await world.sources.history.sample()
        (partition,) = world.sources.scheduler.cluster.partitions()
        assert world.sources.history.full_since(partition) == {}

    world.run(act)


def test_so_many_partitions_have_a_history(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PARTITIONS_MAX == 16
    monkeypatch.setattr(history_module, "PARTITIONS_MAX", 0)
    world = UiWorld()

    async def act(_client: httpx.AsyncClient) -> None:
        await world.sources.history.sample()
        assert world.sources.history._samples == {}

    world.run(act)


def changed(queue: str, change: QueueChange = QueueChange.MAX, rm_id: str = RM) -> QueueChanged:
    return QueueChanged(rm_id, "default", queue, change, True, True, {"memory": 10})


def updated(rm_id: str = RM, *, is_changed: bool = True) -> ConfigurationUpdated:
    return ConfigurationUpdated(rm_id, is_changed, ConfigurationText("text", "queues.yaml"))


def test_the_last_queue_file_is_remembered_with_its_changes() -> None:
    log = QueueFileLog()
    assert log.of(RM).at_ns == 0
    log.observe([changed("root.a"), changed("root.b", QueueChange.ADDED), updated()], at(5))
    assert [(one.queue, one.what) for one in log.of(RM).changes] == [("root.a", "max"), ("root.b", "added")]
    assert (log.of(RM).at_ns, log.of(RM).source) == (at(5).wall_ns, "queues.yaml")
    log.observe([updated(is_changed=False)], at(6))
    assert len(log.of(RM).changes) == 2  # the same content
    log.observe([changed("root.dynamic")], at(7))
    assert len(log.of(RM).changes) == 2  # not by a file
    log.observe([ConfigurationRejected(RM, ("it is wrong",))], at(8))
    assert (log.of(RM).refused_at_ns, log.of(RM).refused_because) == (at(8).wall_ns, ("it is wrong",))
    log.observe([updated()], at(9))
    assert (log.of(RM).changes, log.of(RM).refused_at_ns) == ([], 0)


def test_so_many_changes_and_files_are_remembered() -> None:
    log = QueueFileLog()
    log.observe([*(changed(f"root.q{number}") for number in range(CHANGES_MAX + 7)), updated()], at(5))
    assert (len(log.of(RM).changes), log.of(RM).changes_left_out) == (CHANGES_MAX, 7)
    for number in range(LOGS_MAX):
        log.observe([updated(f"other-{number}")], at(6))
    assert log.of(RM).at_ns == 0
    assert log.of("other-0").at_ns


def test_the_page_of_a_queue_says_what_the_file_changed() -> None:
    world = UiWorld()
    world.queue_files.observe([changed("root.a"), changed("root.b"), updated()], at(5))
    text = world.page("/ui/queue?path=root.a")
    assert "queues.yaml: 1 change here" in text
    assert "10 memory<" in text
    world.queue_files.observe([ConfigurationRejected(RM, ("it is wrong",))], at(8))
    assert "it is wrong" in world.page("/ui/")
