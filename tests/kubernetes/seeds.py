"""Random histories of the shim's cluster and its API client, many more than the tests play.

    python -m tests.kubernetes.seeds --seeds 2000 [--first 0] [WORLD...]

Prints for each world how many seeds were played, the CPU seconds of this process, and the seeds that failed with the
last line of the failure. Exit code 1 if one did.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback
from collections.abc import Callable

from tests.kubernetes import test_refused_pods_property as refusals
from tests.kubernetes.api import chaos
from tests.kubernetes.cluster import agreement
from tests.kubernetes.cluster import test_core_simulation as core
from tests.kubernetes.cluster import test_gang_simulation as gangs
from tests.kubernetes.cluster import test_simulation as toy
from tests.kubernetes.cluster import test_tenant_simulation as tenants
from tests.kubernetes.cluster import test_volume_simulation as volumes
from tests.kubernetes.cluster import test_wake_simulation as wakes
from tests.kubernetes.virtual_loop import run

WORLDS: dict[str, Callable[[int], object]] = {
    "toy": lambda seed: toy.check(toy.play(seed)),
    "gangs": lambda seed: gangs.check(gangs.play(seed)),
    "gangs-with-crashes": lambda seed: gangs.check(gangs.play(seed, crashes=True)),
    "core": lambda seed: core.check(core.play(seed)),
    "core-gangs": lambda seed: core.check_gangs(core.play_gangs(seed)),
    "agreement": agreement.check,
    "tenants": lambda seed: tenants.check(tenants.play(seed)),
    "volumes": lambda seed: volumes.check(volumes.play(seed)),
    "wakes": wakes.play,
    "refusals": refusals.play,
    "client": lambda seed: run(chaos.day(seed, watch_list=bool(seed % 2))),
}


def play(world: str, first: int, seeds: int) -> int:
    """How many seeds failed."""
    failed, started_s = 0, time.process_time()
    for seed in range(first, first + seeds):
        try:
            WORLDS[world](seed)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            failed += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(f"{world}: seed {seed}: {type(error).__name__}: {error} ({where.filename}:{where.lineno})")
    seconds = time.process_time() - started_s
    print(f"{world}: {seeds} seeds from {first}, {seconds:.0f} s of CPU, {failed} failed", flush=True)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description="Play random histories of the Kubernetes shim.")
    parser.add_argument("worlds", nargs="*", metavar="WORLD", help=f"all without one: {', '.join(WORLDS)}")
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    unknown = set(given.worlds) - set(WORLDS)
    if unknown:
        parser.error(f"no such world: {', '.join(sorted(unknown))}; there are {', '.join(WORLDS)}")
    logging.disable(logging.CRITICAL)
    sys.exit(1 if sum(play(world, given.first, given.seeds) for world in given.worlds or WORLDS) else 0)


if __name__ == "__main__":
    main()
