"""Streams of pages: refreshed once for all viewers, resumed by id, bounded."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message

from schedulerd.core.language.commands import StopCause
from schedulerd.daemon.admin.endless import UNREAD_SECONDS_MAX
from schedulerd.daemon.admin.ui import live as live_module
from schedulerd.daemon.admin.ui.app import PAGES
from schedulerd.daemon.admin.ui.live import CHANGES_BYTES_MAX, REFRESH_SECONDS, TOPICS_KEPT_MAX, WORK_SECONDS_MAX
from schedulerd.daemon.admin.ui.pages import overview
from schedulerd.daemon.admin.ui.stream import HEARTBEAT_SECONDS, STREAMS_MAX, PageStream
from tests.unit.core.builders import an_app
from tests.unit.daemon.admin.ui.ui_world import UiWorld


class Reader:
    """A browser that reads a stream."""

    def __init__(self, world: UiWorld, known: str = "", form: str | None = None, page: str = "applications") -> None:
        self.world, self.is_stuck, self.is_allowed = world, False, True
        self.texts: list[str] = []
        self._gone = asyncio.Event()
        make, _ = PAGES[page]
        self.topic = world.ui.live.topic(page, make, {})
        self._known, self._form = known, form

    async def start(self) -> asyncio.Task[None]:
        await self.world.ui.live.fresh(self.topic)
        form = self.topic.form if self._form is None else self._form
        stream = PageStream(self.world.ui.live, self.world.ui._streams, self.topic, self._known, form, self._check)
        return asyncio.ensure_future(stream({"type": "http"}, self._receive, self._send))

    def _check(self) -> None:
        if not self.is_allowed:
            raise HTTPException(401, "the session has ended")

    async def _receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self.is_stuck:
            await asyncio.Event().wait()
        self.texts.append(message.get("body", b"").decode())

    def leave(self) -> None:
        self._gone.set()

    @property
    def events(self) -> list[tuple[str, str, Any]]:
        """Kind, id and data."""
        found = []
        for text in "".join(self.texts).split("\n\n"):
            fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
            if "data" in fields:
                found.append((fields["event"], fields.get("id", ""), json.loads(fields["data"])))
        return found


def test_a_stream_begins_with_everything_and_goes_on_with_changes() -> None:
    world = UiWorld()

    async def act(_client: httpx.AsyncClient) -> None:
        reader = Reader(world)
        task = await reader.start()
        await asyncio.sleep(0.5)
        assert [kind for kind, _, _ in reader.events] == ["whole"]
        world.talk.apps(an_app("new-one", "root.b"))
        await asyncio.sleep(REFRESH_SECONDS)
        kind, _, data = reader.events[-1]
        assert kind == "changes"
        rows = data["l"]["applications"]
        assert (rows["o"], rows["r"][0][1]["name"]) == (True, "new-one")
        reader.leave()
        await task

    world.run(act)


def test_a_stream_resumes_by_the_last_id() -> None:
    world = UiWorld()

    async def act(_client: httpx.AsyncClient) -> None:
        first = Reader(world)
        task = await first.start()
        await asyncio.sleep(3.5)
        ids = [one for _, one, _ in first.events]
        assert len(ids) == 4
        resumed = Reader(world, known=ids[1])
        again = await resumed.start()
        await asyncio.sleep(0.1)
        assert [one for _, one, _ in resumed.events] == ids[2:]
        other_run = Reader(world, known="0badcafe:1")
        third = await other_run.start()
        await asyncio.sleep(0.1)
        assert other_run.events[0][0] == "whole"
        for reader in (first, resumed, other_run):
            reader.leave()
        await asyncio.gather(task, again, third)

    world.run(act)


def test_a_page_of_another_form_is_loaded_again() -> None:
    world = UiWorld()

    async def act(_client: httpx.AsyncClient) -> None:
        reader = Reader(world, known="x:1", form="an earlier one")
        await (await reader.start())
        assert [kind for kind, _, _ in reader.events] == ["form"]

    world.run(act)


def test_fifty_viewers_cost_no_more_than_one_and_none_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    real = overview.view

    def counted(context: Any) -> Any:
        nonlocal made
        made += 1
        return real(context)

    world = UiWorld()

    async def act(_client: httpx.AsyncClient) -> None:
        topic = world.ui.live.topic("overview", counted, {})
        await world.ui.live.fresh(topic)
        assert made == 1
        await asyncio.sleep(100)
        assert made == 1
        with ExitStack() as watched:
            for _ in range(50):
                watched.enter_context(world.ui.live.watching(topic))
            await asyncio.sleep(10.5 * REFRESH_SECONDS)
        assert 10 <= made <= 12
        await asyncio.sleep(100)
        assert made <= 13

    world.run(act)


def test_all_viewers_get_the_same_bytes() -> None:
    world = UiWorld()

    async def act(client: httpx.AsyncClient) -> None:
        pages = await asyncio.gather(*(client.get("/ui/nodes") for _ in range(5)))
        assert len({one.content for one in pages}) == 1

    world.run(act)


def test_topics_without_viewers_are_forgotten() -> None:
    world = UiWorld()

    async def act(client: httpx.AsyncClient) -> None:
        for number in range(3 * TOPICS_KEPT_MAX):
            assert (await client.get(f"/ui/applications?name=x{number}")).status_code == 200
        assert len(world.ui.live._topics) <= TOPICS_KEPT_MAX + 1

    world.run(act)


def test_changes_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CHANGES_BYTES_MAX == 262_144
    monkeypatch.setattr(live_module, "CHANGES_BYTES_MAX", 1_500)
    world = UiWorld()

    async def act(_client: httpx.AsyncClient) -> None:
        reader = Reader(world)
        task = await reader.start()
        await asyncio.sleep(20)
        assert 0 < sum(len(one.data) for one in reader.topic.changes) <= 1_500
        reader.leave()
        await task

    world.run(act)


def test_so_many_streams_are_open_at_a_time() -> None:
    world = UiWorld()

    async def act(client: httpx.AsyncClient) -> None:
        readers = [Reader(world) for _ in range(STREAMS_MAX)]
        tasks = [await one.start() for one in readers]
        await asyncio.sleep(0.1)
        refused = await client.get("/ui/stream?page=overview")
        assert refused.status_code == 503
        assert f"{STREAMS_MAX} pages are kept fresh already" in refused.text
        for one in readers:
            one.leave()
        await asyncio.gather(*tasks)

    world.run(act)


def test_a_browser_that_does_not_read_is_cut() -> None:
    world = UiWorld()

    async def act(_client: httpx.AsyncClient) -> None:
        reader = Reader(world)
        task = await reader.start()
        await asyncio.sleep(0.5)
        reader.is_stuck = True
        await asyncio.wait_for(task, UNREAD_SECONDS_MAX + 2 * REFRESH_SECONDS)
        assert reader.texts[-1]  # the end of the answer was not written

    world.run(act)


def test_a_session_that_ends_ends_its_streams() -> None:
    world = UiWorld()

    async def act(_client: httpx.AsyncClient) -> None:
        reader = Reader(world)
        task = await reader.start()
        await asyncio.sleep(0.5)
        reader.is_allowed = False
        await asyncio.wait_for(task, HEARTBEAT_SECONDS + 1)

    world.run(act)


def test_a_quiet_stream_gives_signs_of_life() -> None:
    world = UiWorld()

    async def act(_client: httpx.AsyncClient) -> None:
        reader = Reader(world)
        task = await reader.start()
        await asyncio.sleep(0.1)
        world.ui.live._task.cancel()  # type: ignore[union-attr]  # nothing changes any more
        await asyncio.sleep(2.5 * HEARTBEAT_SECONDS)
        assert [kind for kind, _, _ in reader.events] == ["whole", "same", "same"]
        reader.leave()
        await task

    world.run(act)


def test_a_view_that_takes_too_long_is_given_up() -> None:
    world = UiWorld()

    def endless(_context: Any) -> Any:
        while True:
            asyncio.get_running_loop().hold(1)  # type: ignore[attr-defined]
            yield

    async def act(_client: httpx.AsyncClient) -> None:
        topic = world.ui.live.topic("x", endless, {})
        began = asyncio.get_running_loop().time()
        with pytest.raises(HTTPException) as error:
            await world.ui.live.fresh(topic)
        assert error.value.status_code == 503
        assert asyncio.get_running_loop().time() - began < WORK_SECONDS_MAX + 30

    world.run(act)


def test_a_stream_ends_when_its_object_is_gone_or_the_daemon_ends() -> None:
    world = UiWorld()

    async def act(client: httpx.AsyncClient) -> None:
        one, other = Reader(world), Reader(world, page="nodes")
        tasks = [await one.start(), await other.start()]
        await asyncio.sleep(0.5)
        world.talk.stop(StopCause.UNREGISTERED)
        await asyncio.sleep(3 * REFRESH_SECONDS)
        assert one.events[-1][0] == other.events[-1][0] == "gone"
        await asyncio.gather(*tasks)
        assert "Nothing is scheduled here" in (await client.get("/ui/")).text

    world.run(act)
    closed = UiWorld()

    async def end(_client: httpx.AsyncClient) -> None:
        reader = Reader(closed)
        task = await reader.start()
        await asyncio.sleep(0.5)
        closed.ui.live.close()
        await asyncio.wait_for(task, 1)

    closed.run(end)
