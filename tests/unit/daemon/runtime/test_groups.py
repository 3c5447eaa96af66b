"""The border to the operating system is its user and group database; the clock is a number."""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from schedulerd.core.language.specs import SECOND_NS
from schedulerd.daemon.runtime import groups
from schedulerd.daemon.runtime.groups import GroupResolver, Groups, operating_system_groups

GROUPS = {"ann": ("staff", "dev"), "bob": ("staff",)}


class Directory:
    """Who is in which group, how often each user was asked for, and the time."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.members = dict(GROUPS)
        self.asked: list[str] = []
        self.resolver = GroupResolver(lambda: self.now_ns, self.look_up)

    def look_up(self, user: str) -> tuple[str, ...]:
        self.asked.append(user)
        return self.members.get(user, ())


@pytest.fixture
def directory() -> Directory:
    return Directory()


def test_groups_are_remembered_for_300_s(directory: Directory) -> None:
    assert directory.resolver.groups("ann") == ("staff", "dev")
    directory.members["ann"] = ("ops",)
    directory.now_ns = 300 * SECOND_NS - 1
    assert directory.resolver.groups("ann") == ("staff", "dev")
    assert directory.asked == ["ann"]
    directory.now_ns += 1
    assert directory.resolver.groups("ann") == ("ops",)
    assert directory.asked == ["ann", "ann"]


def test_an_unknown_user_is_remembered_for_30_s(directory: Directory) -> None:
    assert directory.resolver.groups("cid") == ()
    directory.members["cid"] = ("new",)
    directory.now_ns = 30 * SECOND_NS - 1
    assert directory.resolver.groups("cid") == ()
    directory.now_ns += 1
    assert directory.resolver.groups("cid") == ("new",)
    directory.now_ns += 299 * SECOND_NS
    assert directory.resolver.groups("cid") == ("new",)
    assert directory.asked == ["cid", "cid"]


def test_each_user_has_an_entry_of_its_own(directory: Directory) -> None:
    assert [directory.resolver.groups(user) for user in ("ann", "bob", "ann", "bob")] == [
        GROUPS["ann"],
        GROUPS["bob"],
        GROUPS["ann"],
        GROUPS["bob"],
    ]
    assert directory.asked == ["ann", "bob"]


def test_a_directory_that_is_down_is_asked_again_after_30_s() -> None:
    answers: list[Callable[[], tuple[str, ...]]] = [_fail, lambda: ("staff",)]
    now_ns = [0]
    resolver = GroupResolver(lambda: now_ns[0], lambda _: answers.pop(0)())
    with capture_logs() as lines:
        assert resolver.groups("ann") == ()
        assert resolver.groups("ann") == ()
    assert [(line["user"], line["log_level"]) for line in lines] == [("ann", "warning")]
    now_ns[0] = 30 * SECOND_NS
    assert resolver.groups("ann") == ("staff",)


def _fail() -> tuple[str, ...]:
    raise OSError("directory is down")


def test_the_user_asked_for_longest_ago_is_forgotten_first(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "USERS_MAX", 2)
    for user in ("ann", "bob", "cid"):
        directory.resolver.groups(user)
    assert directory.resolver.groups("cid") == ()
    assert directory.resolver.groups("bob") == ("staff",)
    assert directory.asked == ["ann", "bob", "cid"]
    directory.resolver.groups("ann")
    assert directory.asked == ["ann", "bob", "cid", "ann"]


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {10: "staff", 11: "dev"}
    users = {"ann": 10}
    monkeypatch.setattr(pwd, "getpwnam", lambda user: SimpleNamespace(pw_gid=users[user]))
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name=names[gid]))
    monkeypatch.setattr(os, "getgrouplist", lambda user, gid: [gid, 11, 4711, gid])


@pytest.mark.usefixtures("database")
def test_names_of_the_operating_system_without_numbers_and_repetition() -> None:
    assert operating_system_groups("ann") == ("staff", "dev")
    assert operating_system_groups("cid") == ()


@pytest.mark.parametrize("user", ["", "a\0b", "\udc80", "no such user!"])
def test_what_is_no_user_has_no_groups(user: str) -> None:
    assert operating_system_groups(user) == ()


def test_the_first_user_of_this_system_has_its_primary_group_first() -> None:
    """The real database of this machine, which every POSIX system has."""
    root = pwd.getpwuid(0)
    assert operating_system_groups(root.pw_name)[0] == grp.getgrgid(root.pw_gid).gr_name


def test_a_remembered_user_is_answered_although_the_directory_hangs() -> None:
    go_on = threading.Event()

    def look_up(user: str) -> tuple[str, ...]:
        return ("staff",) if user == "ann" or go_on.wait(10) else ()

    async def play() -> None:
        asked = Groups(GroupResolver(lambda: 0, look_up), waiting_max=0, seconds_max=0.01)
        assert await asked.groups("ann") == ("staff",)
        with capture_logs() as lines:
            unknown = [await asked.groups(f"user-{number}") for number in range(5)]
        assert unknown == [()] * 5
        told = [line["error"] for line in lines if line["event"] == "groups of a user cannot be looked up"]
        assert told[:4] == ["took longer than 0.01 s"] * 4
        assert "are under way or waiting already" in told[4]
        assert await asked.groups("ann") == ("staff",)
        go_on.set()

    asyncio.run(play())
