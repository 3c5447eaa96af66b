"""The short form of `python -m tests.kubernetes.kills`: each is killed alone, and some of them together."""

from __future__ import annotations

import asyncio

import pytest

from tests.kubernetes import kills

ROUNDS, PODS = 4, 200


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_kills_under_load() -> None:
    assert asyncio.run(kills.run(seed=3, rounds=ROUNDS, pods=PODS)) >= PODS
