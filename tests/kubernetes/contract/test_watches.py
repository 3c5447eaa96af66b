"""Watches: what is told of every change, and how a watch begins and ends."""

from __future__ import annotations

import asyncio

import pytest

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.contract.api import LIMIT_SECONDS, Answer, Api


async def test_everything_after_the_version_is_told_in_order(api: Api) -> None:
    await api.pod("before")
    version = await api.version(r.PODS)
    await api.pod("a")
    await api.patch(r.PODS, "a", {"metadata": {"labels": {"x": "1"}}})
    await api.delete(r.PODS, "a")
    watch = await api.watch(r.PODS, version)
    last = await watch.until("DELETED", "a")
    assert [(one["type"], one["object"]["metadata"]["name"]) for one in watch.seen] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]
    assert [one["object"]["kind"] for one in watch.seen] == ["Pod"] * 4
    versions = [int(one["object"]["metadata"]["resourceVersion"]) for one in watch.seen]
    assert versions == sorted(set(versions))
    assert versions[0] > int(version)
    assert last["metadata"]["labels"] == {"x": "1"}
    await api.pod("b")
    await watch.until("ADDED", "b")


async def test_a_watch_goes_on_from_the_version_of_any_event(api: Api) -> None:
    version = await api.version(r.PODS)
    for name in "abc":
        await api.pod(name)
    first = await api.watch(r.PODS, version)
    b = await first.until("ADDED", "b")
    first.close()
    again = await api.watch(r.PODS, b["metadata"]["resourceVersion"])
    event = await again.next()
    assert event is not None
    assert event["object"]["metadata"]["name"] == "c"


async def test_a_watch_from_any_version_begins_with_all_objects(api: Api) -> None:
    await api.pod("a")
    watch = await api.watch(r.PODS, "0")
    await watch.until("ADDED", "a")


async def test_leaving_a_selection_is_a_deletion_and_entering_it_an_addition(api: Api) -> None:
    version = await api.version(r.PODS)
    watch = await api.watch(r.PODS, version, fieldSelector="status.phase!=Succeeded,status.phase!=Failed")
    bound = await api.watch(r.PODS, version, fieldSelector="spec.nodeName=n1")
    await api.pod("a")
    await watch.until("ADDED", "a")
    await api.bind("a", "n1")
    await watch.until("MODIFIED", "a")
    added = await bound.until("ADDED", "a")
    assert added["spec"]["nodeName"] == "n1"
    await api.patch(r.PODS, "a", {"status": {"phase": "Failed"}}, "status")
    await watch.until("DELETED", "a")
    await bound.until("MODIFIED", "a")
    assert len(bound.seen) == 2


async def test_a_watch_from_a_forgotten_version_has_one_error_and_ends(api: Api) -> None:
    version = await api.version(r.EVENTS)  # of which a server keeps no history of its own
    for name in "abc":
        await api.pod(name)
    await api.forget_old_versions()
    try:
        watch = await api.watch(r.EVENTS, version)
    except AssertionError as error:
        (answer,) = error.args
        assert isinstance(answer, Answer)
        assert answer.status == 410
        return
    event = await watch.next()
    assert event is not None
    assert event["type"] == "ERROR"
    assert (event["object"]["kind"], event["object"]["code"], event["object"]["reason"]) == ("Status", 410, "Expired")
    assert await watch.next() is None


async def test_the_server_ends_a_watch_after_its_time_with_a_bookmark_before(api: Api) -> None:
    version = await api.version(r.PODS)
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    watch = await api.watch(r.PODS, version, timeoutSeconds="4", allowWatchBookmarks="true")
    pod = await api.pod("a")
    while await watch.next() is not None:
        pass
    assert 3.0 <= loop.time() - started_s <= (LIMIT_SECONDS if api.is_real else 4.5)
    assert watch.seen[0]["type"] == "ADDED"
    last = watch.seen[-1]
    assert last["type"] == "BOOKMARK"
    assert last["object"]["kind"] == "Pod"
    assert int(last["object"]["metadata"]["resourceVersion"]) >= int(pod["metadata"]["resourceVersion"])
    assert "name" not in last["object"]["metadata"]


async def test_no_bookmarks_for_those_who_want_none(api: Api) -> None:
    watch = await api.watch(r.PODS, await api.version(r.PODS), timeoutSeconds="3")
    assert await watch.next() is None


async def test_a_watch_that_begins_with_a_list_is_whole_or_refused(api: Api) -> None:
    await api.pod("a")
    query = {
        "watch": "1",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "5",
    }
    if api.fake is not None:
        refused = await api.get(r.PODS, **query)
        assert refused.status == 422
        api.fake.server.watch_list = True
    try:
        watch = await api.watch(r.PODS, "", everywhere=False, **query)
    except AssertionError as error:
        (answer,) = error.args
        assert (answer.status, answer.json["reason"]) == (422, "Invalid")
        return
    await watch.until("ADDED", "a")
    event = await watch.next()
    assert event is not None
    assert event["type"] == "BOOKMARK"
    assert event["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_watches_of_one_kind_know_nothing_of_others(api: Api) -> None:
    watch = await api.watch(r.CONFIG_MAPS, await api.version(r.CONFIG_MAPS))
    await api.pod("a")
    await api.post(r.CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"k": "v"}})
    await watch.until("ADDED", "c")
    assert len(watch.seen) == 1


@pytest.mark.parametrize("version", ["x", "-1"])
async def test_a_version_that_is_none_is_refused(api: Api, version: str) -> None:
    with pytest.raises(AssertionError) as raised:
        await api.watch(r.PODS, version)
    (answer,) = raised.value.args
    assert answer.status in (400, 500)
    assert "resourceVersion: Invalid value" in answer.json["message"]
