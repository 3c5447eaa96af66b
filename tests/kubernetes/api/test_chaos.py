"""Random faults, and deliberate breaks of the client that the same checks have to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.kubernetes.api import Outcome, Result
from schedulerd.kubernetes.api.decoding import Decoder
from schedulerd.kubernetes.api.object_cache import ObjectCache, key_of
from schedulerd.kubernetes.api.reflector import Reflector
from schedulerd.kubernetes.api.watch_events import Upserted
from schedulerd.kubernetes.api.writes import Bind
from schedulerd.kubernetes.api.writes.base import Write
from tests.kubernetes.api.chaos import day
from tests.kubernetes.virtual_loop import run

SEEDS = range(25)
Break = Callable[[pytest.MonkeyPatch], None]
ATTEMPT_ONCE = Write.attempt_once


@pytest.mark.parametrize("watch_list", [False, True], ids=["lists", "watch lists"])
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow if seed > 5 else ()) for seed in SEEDS])
async def test_whatever_happens_the_story_is_whole(seed: int, watch_list: bool) -> None:
    await day(seed, watch_list=watch_list)


def no_replacement(patch: pytest.MonkeyPatch) -> None:
    """After 410 a list is told, and what it lacks is not."""
    patch.setattr(ObjectCache, "end_list", lambda self: [])


def forgets_on_gap(patch: pytest.MonkeyPatch) -> None:
    """After 410 it begins as if nothing had been told."""

    def begin_list(self: ObjectCache[Any]) -> None:
        self.objects.clear()
        self._listed = set()

    patch.setattr(ObjectCache, "begin_list", begin_list)


def ignores_uid(patch: pytest.MonkeyPatch) -> None:
    """A pod that was made anew while nobody watched is a change of the old one."""

    def upsert(self: ObjectCache[Any], new: Any, told: list[Any]) -> None:
        key = key_of(new.metadata)
        old = self.objects.get(key)
        if old is None or old.metadata.resource_version != new.metadata.resource_version:
            self.objects[key] = new
            told.append(Upserted(new, old))

    patch.setattr(ObjectCache, "upsert", upsert)


def keeps_the_version_after_expiry(patch: pytest.MonkeyPatch) -> None:
    """It goes on watching from the version that the server has forgotten."""

    async def expired(self: Reflector[Any], _: float | None) -> None:
        await self._wait(None)

    patch.setattr(Reflector, "_expired", expired)


def keeps_half_a_line(patch: pytest.MonkeyPatch) -> None:
    """The beginning of a line of a watch that was cut is put before the first one of the next."""
    patch.setattr(Decoder, "reset", lambda self: None)


def goes_on_from_now(patch: pytest.MonkeyPatch) -> None:
    """A watch that was cut is opened again at the newest version."""
    original = Reflector._watch

    async def watch(self: Reflector[Any], version: str, *, is_list: bool) -> None:
        await original(self, "" if version and self._metrics.watches else version, is_list=is_list)

    patch.setattr(Reflector, "_watch", watch)


def replaces_before_the_last_page(patch: pytest.MonkeyPatch) -> None:
    """The first page of a list is taken for all of it."""
    original = Decoder.page

    def page(self: Decoder[Any], body: bytes) -> Any:
        found = original(self, body)
        found.continue_token = ""
        return found

    patch.setattr(Decoder, "page", page)


def guesses_failure(patch: pytest.MonkeyPatch) -> None:
    """A bind without an answer has failed."""

    async def attempt_once(self: Write, caller: Any) -> Any:
        result = await ATTEMPT_ONCE(self, caller)
        if isinstance(self, Bind) and self.in_doubt:
            return Outcome(Result.FAILED)
        return result

    patch.setattr(Bind, "attempt_once", attempt_once)


def guesses_success(patch: pytest.MonkeyPatch) -> None:
    """A bind without an answer is done."""

    async def attempt_once(self: Write, caller: Any) -> Any:
        result = await ATTEMPT_ONCE(self, caller)
        if isinstance(self, Bind) and self.in_doubt:
            return Outcome(Result.DONE)
        return result

    patch.setattr(Bind, "attempt_once", attempt_once)


def takes_conflicts_for_failures(patch: pytest.MonkeyPatch) -> None:
    """A 409 after a lost answer is a conflict."""

    async def look_up(self: Bind, caller: Any, message: str = "") -> Any:
        return Outcome(Result.CONFLICT, message) if message else None

    patch.setattr(Bind, "_look_up", look_up)


BREAKS: list[Break] = [
    no_replacement,
    forgets_on_gap,
    ignores_uid,
    keeps_the_version_after_expiry,
    keeps_half_a_line,
    goes_on_from_now,
    replaces_before_the_last_page,
    guesses_failure,
    guesses_success,
    takes_conflicts_for_failures,
]


@pytest.mark.parametrize("broken", BREAKS, ids=lambda one: one.__name__)
def test_a_deliberate_break_is_found(broken: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each within the days that the client itself passes."""
    broken(monkeypatch)
    for seed in SEEDS:
        for watch_list in (False, True):
            try:
                run(day(seed, watch_list=watch_list))
            except AssertionError:
                return
    pytest.fail(f"nobody finds {broken.__name__}")
