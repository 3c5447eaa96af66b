"""Mutants of the Kubernetes shim's API client: watches, writes, and how fast they leave."""

from __future__ import annotations

from typing import Any

from schedulerd.kubernetes.api import pool
from schedulerd.kubernetes.api.backoff import Backoff
from schedulerd.kubernetes.api.object_cache import ObjectCache
from schedulerd.kubernetes.api.pool import TokenBucket, WritePool
from schedulerd.kubernetes.api.reflector import Reflector
from schedulerd.kubernetes.api.status import Status
from schedulerd.kubernetes.api.writes.base import Write
from schedulerd.kubernetes.api.writes.binding import Bind
from schedulerd.kubernetes.api.writes.creation import Create
from schedulerd.kubernetes.api.writes.deletion import Delete
from schedulerd.kubernetes.api.writes.patching import Patch, patch_key
from schedulerd.kubernetes.shim import api_writer
from tests.kubernetes.api import (
    test_api_writer,
    test_pool,
    test_recorder,
    test_reflector,
    test_watch_lists,
    test_writes,
)
from tests.mutants.changes import By, Constant, Replaced, getter, gives, nothing
from tests.mutants.finders import TestsOf
from tests.mutants.mutant import Mutant
from tests.mutants.rules import Rule

REFLECTOR = TestsOf(test_reflector, test_watch_lists)
WRITES = TestsOf(test_writes)
POOL = TestsOf(test_pool)
RECORDER = TestsOf(test_recorder)


def without_wait(original: By, write: Write, error: Any) -> Any:
    error.retry_after_s = None
    return original(write, error)


def as_at_first(original: By, backoff: Backoff, now_s: float) -> float:
    backoff._base_s = 0.0
    return float(original(backoff, now_s))


async def looks_nothing_up(original: By, write: Any, caller: Any, message: str = "") -> None:
    write.in_doubt = False


async def deletes_whatever(original: By, write: Any, caller: Any) -> None:
    write.in_doubt = False


async def takes_for_a_refusal(original: By, patch: Patch, caller: Any, error: Any) -> Any:
    return Write.refused(patch, error)


def of_the_whole(original: By, resource: Any, namespace: str, name: str, subresource: str, part: str) -> Any:
    return original(resource, namespace, name, subresource, "")


async def tried_again_at_once(original: By, reflector: Any, retry_after_s: float | None) -> None:
    """Nobody waits."""


MUTANTS = (
    # Watches
    Mutant(
        "after a gap what was deleted stays",
        Rule.SHIM_WATCHES,
        Replaced(ObjectCache.end_list, lambda original, cache: []),
        (REFLECTOR,),
    ),
    Mutant(
        "a version that has expired is taken for another error",
        Rule.SHIM_WATCHES,
        Replaced(getter(Status, "is_expired"), gives(False)),
        (REFLECTOR,),
    ),
    Mutant(
        "a version from the future is taken for another error",
        Rule.SHIM_WATCHES,
        Replaced(getter(Status, "is_from_the_future"), gives(False)),
        (REFLECTOR,),
    ),
    Mutant(
        "a watch begins anew at its first version",
        Rule.SHIM_WATCHES,
        Replaced(Reflector._go_on, nothing),
        (REFLECTOR,),
    ),
    Mutant(
        "a server that fails is asked again at once",
        Rule.SHIM_WATCHES,
        Replaced(Reflector._wait, tried_again_at_once),
        (REFLECTOR,),
    ),
    Mutant(
        "waits do not grow",
        Rule.SHIM_WATCHES,
        Replaced(Backoff.failed, as_at_first),
        (REFLECTOR,),
    ),
    # Writes
    Mutant(
        "a conflict of a binding is not looked up",
        Rule.SHIM_WRITES,
        Replaced(Bind._look_up, looks_nothing_up),
        (WRITES,),
    ),
    Mutant(
        "a deletion is repeated without a look",
        Rule.SHIM_WRITES,
        Replaced(Delete._look_up, deletes_whatever),
        (WRITES,),
    ),
    Mutant(
        "a creation that finds something is repeated",
        Rule.SHIM_WRITES,
        Replaced(Create._look_up, looks_nothing_up),
        (WRITES,),
    ),
    Mutant(
        "a patch takes the place of one that changes something else",
        Rule.SHIM_WRITES,
        Replaced(patch_key, of_the_whole),
        (POOL,),
    ),
    Mutant(
        "the server is not left alone for as long as it says",
        Rule.SHIM_WRITES,
        Replaced(Write.refused, without_wait),
        (WRITES,),
    ),
    Mutant(
        "a patch of an older version overwrites",
        Rule.SHIM_WRITES,
        Replaced(Patch._conflict, takes_for_a_refusal),
        (WRITES,),
    ),
    # Their rate
    Mutant(
        "as many leave in a second as there are",
        Rule.SHIM_WRITE_RATE,
        Replaced(TokenBucket.take, gives(0.0)),
        (POOL,),
    ),
    Mutant(
        "an older patch is sent beside the newer one",
        Rule.SHIM_WRITE_RATE,
        Replaced(WritePool._supersede, gives(False)),
        (POOL,),
    ),
    Mutant(
        "a patch that is withdrawn leaves",
        Rule.SHIM_WRITE_RATE,
        Replaced(WritePool.withdraw, nothing),
        (POOL,),
    ),
    Mutant(
        "events wait without a bound",
        Rule.SHIM_WRITE_RATE,
        Replaced(WritePool._is_full, gives(False)),
        (POOL,),
    ),
    Mutant(
        "a write with a bug is tried for ever",
        Rule.SHIM_WRITE_RATE,
        Constant(pool, "BUGS_MAX", 1_000_000),
        (POOL,),
    ),
    Mutant(
        "a deletion waits for a condition that cannot be written",
        Rule.SHIM_WRITE_RATE,
        Constant(api_writer, "CONDITION_SECONDS_MAX", 100.0),
        (TestsOf(test_api_writer),),
    ),
)
