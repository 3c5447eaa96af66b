"""`python -m tests.contract.gangs`: gangs replaced over gRPC, undisturbed and with faults at some moment."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count, cycle

from tests.contract.gangs.faults import FaultKind, random_faults
from tests.contract.gangs.round import GIVEN_UP_S, NOTICED_S, Outcome, Script, play
from tests.contract.gangs.truth import Plan

WRITES_MAX = (1, 10, 100)
"""How much a resource manager does at a time: one of these in each round."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.contract.gangs", description=__doc__)
    parser.add_argument("--gangs", type=int, default=200)
    parser.add_argument("--members", type=int, default=50, help="of each gang")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--slots", type=int, default=10, help="pods that a node has room for; by default just enough")
    parser.add_argument("--kills", type=int, default=20, help="rounds in which the resource manager is killed")
    parser.add_argument("--daemon-kills", type=int, default=3, help="rounds in which the daemon is killed")
    parser.add_argument("--stops", type=int, default=2, help="rounds in which the daemon is told to stop")
    parser.add_argument("--pauses", type=int, default=2, help="rounds in which one of them stands still")
    parser.add_argument(
        "--pause",
        type=float,
        default=5.0,
        help="seconds, less than 10 or at least 45: only then connections are given up",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that a round may take")
    options = parser.parse_args(arguments)
    plan = Plan(options.gangs, options.members, options.nodes, options.slots)
    if plan.nodes * plan.slots < plan.pods:
        parser.error(f"{plan.nodes} nodes with room for {plan.slots} pods each are not enough for {plan.pods} pods")
    if NOTICED_S <= options.pause < GIVEN_UP_S:
        parser.error(f"whether a connection survives {options.pause:g} s, nobody knows")
    print(f"{plan.gangs} gangs of {plan.members} on {plan.nodes} nodes with room for {plan.slots} pods each")
    kinds = [FaultKind.RM_KILLED] * options.kills + [FaultKind.DAEMON_KILLED] * options.daemon_kills
    kinds += [FaultKind.DAEMON_TERMINATED] * options.stops
    kinds += [FaultKind.RM_PAUSED, FaultKind.DAEMON_PAUSED] * (options.pauses // 2)
    rounds: list[list[FaultKind]] = [[]] * len(WRITES_MAX) + [[kind] for kind in kinds]
    # All of it in one round, last.
    rounds.append(random.Random(options.seed).sample(kinds, len(kinds)))
    outcomes = []
    for of_round, writes_max, seed in zip(rounds, cycle(WRITES_MAX), count(options.seed)):
        faults = random_faults(of_round, plan, seed)
        limit_s = (options.limit + options.pause) * max(len(faults), 1)
        outcomes.append(_play(Script(plan, faults, writes_max, seed, limit_s, pause_s=options.pause)))
    return _summary(outcomes)


def _play(script: Script) -> Outcome:
    started_s = time.monotonic()
    outcome = asyncio.run(play(script))
    seconds = time.monotonic() - started_s
    for fault, progress in outcome.faults:
        print(f"  {fault.kind}: {progress}")
    result = "\n".join(outcome.problems) or "every pod bound once and known to the daemon, nothing left over"
    print(f"seed {script.seed}, up to {script.writes_max} at a time, {seconds:.1f} s: {result}", flush=True)
    return outcome


def _summary(outcomes: Sequence[Outcome]) -> int:
    good = [one for one in outcomes if not one.problems]
    survived = Counter(fault.kind for one in good for fault, _ in one.faults)
    of_kinds = ", ".join(f"{times} x {kind}" for kind, times in sorted(survived.items()))
    print(f"{survived.total()} faults survived ({of_kinds}), {sum(one.checked for one in good)} allocations checked")
    print(f"{len(outcomes)} rounds, {len(outcomes) - len(good)} failed")
    return int(len(good) < len(outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
