"""`python -m tests.contract.gangs`: gangs replaced over gRPC, undisturbed and with processes killed at some moment."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Sequence
from itertools import count, cycle

from tests.contract.gangs.round import Outcome, Script, Victim, play, random_kills
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
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that a round may take")
    options = parser.parse_args(arguments)
    plan = Plan(options.gangs, options.members, options.nodes, options.slots)
    if plan.nodes * plan.slots < plan.pods:
        parser.error(f"{plan.nodes} nodes with room for {plan.slots} pods each are not enough for {plan.pods} pods")
    print(f"{plan.gangs} gangs of {plan.members} on {plan.nodes} nodes with room for {plan.slots} pods each")
    seeds = count(options.seed)
    outcomes = [_play(Script(plan, (), writes_max, next(seeds), limit_s=options.limit)) for writes_max in WRITES_MAX]
    victims = [Victim.RESOURCE_MANAGER] * options.kills + [Victim.DAEMON] * options.daemon_kills
    for victim, writes_max, seed in zip(victims, cycle(WRITES_MAX), seeds):
        kills = random_kills([victim], plan, seed)
        outcomes.append(_play(Script(plan, kills, writes_max, seed, limit_s=options.limit)))
    print("all of these kills in one round:")
    seed = next(seeds)
    kills = random_kills(random.Random(seed).sample(victims, len(victims)), plan, seed)
    outcomes.append(_play(Script(plan, kills, WRITES_MAX[-1], seed, limit_s=options.limit * len(victims))))
    came, failed = sum(len(one.kills) for one in outcomes), sum(bool(one.problems) for one in outcomes)
    print(f"{len(outcomes)} rounds, {came} of {2 * len(victims)} kills came in time, {failed} rounds failed")
    return int(failed > 0)


def _play(script: Script) -> Outcome:
    started_s = time.monotonic()
    outcome = asyncio.run(play(script))
    seconds = time.monotonic() - started_s
    for kill, progress in outcome.kills:
        print(f"  {kill.victim} killed: {progress}")
    verdict = "\n".join(outcome.problems) or "every pod bound once and known to the daemon, nothing left over"
    print(f"seed {script.seed}, up to {script.writes_max} at a time, {seconds:.1f} s: {verdict}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
