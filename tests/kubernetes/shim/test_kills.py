"""The short form of `python -m tests.kubernetes.kills`: each is killed alone, and some of them together."""

from __future__ import annotations

import asyncio

import pytest

from tests.kubernetes import kills
from tests.kubernetes.contract.real_server import assets

ROUNDS, PODS = 4, 200


@pytest.mark.timeout(120)
def test_kills_under_load() -> None:
    assert asyncio.run(kills.run(seed=3, rounds=ROUNDS, pods=PODS)) >= PODS


@pytest.mark.nightly
@pytest.mark.timeout(240)
def test_kills_under_load_with_a_real_server() -> None:
    folder = assets()
    if folder is None:
        pytest.skip("KUBEBUILDER_ASSETS names no folder with a real API server")
    assert asyncio.run(kills.run_real(folder, seed=3, rounds=ROUNDS, pods=PODS)) >= PODS
