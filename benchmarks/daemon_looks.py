"""What is seen of a daemon in another process: what it has computed, and whether its state is sound."""

from __future__ import annotations

import httpx
import psutil

from schedulerd.simulate.demo import Daemon

STATE_TIMEOUT_S = 600.0
"""It recounts up to a million asks before it answers."""
RECOUNT_ALL = ("--recount-items-max", "10000000")
"""A flag for the daemon: it recounts all that it has, whatever that costs."""


def cpu_seconds_of(daemon: Daemon) -> float:
    """What it has computed so far, in steps of 10 ms."""
    times = psutil.Process(daemon.pid).cpu_times()
    return times.user + times.system


async def violations_of(daemon: Daemon) -> list[str]:
    """What the daemon itself finds wrong with its state."""
    url = daemon.metrics_url.replace("/metrics", "/debug/state")
    async with httpx.AsyncClient(timeout=STATE_TIMEOUT_S, trust_env=False) as http:
        state: dict[str, list[str]] = (await http.get(url)).raise_for_status().json()
    return state["violations"]
