"""`python -m tests.contract.gangs`: gangs replaced over gRPC, undisturbed and with processes killed at random bytes."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence

from tests.contract.gangs.round import Kill, Outcome, Victim, play, random_kills
from tests.contract.gangs.truth import Plan

SHARE_UNTIL_KILL = 0.9
"""Of the bytes of an undisturbed round: what a round needs differs a little, and its kill must still come."""
SHARE_BETWEEN_KILLS = 0.3
"""The same for each of many kills in one round, for which more bytes pass as every successor reports anew."""


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
    undisturbed = _play(plan, [], options.seed, options.limit)
    victims = [Victim.RESOURCE_MANAGER] * options.kills + [Victim.DAEMON] * options.daemon_kills
    outcomes = [undisturbed]
    for number, victim in enumerate(victims, 1):
        bytes_max = int(SHARE_UNTIL_KILL * undisturbed.bytes_passed)
        kills = random_kills([victim], bytes_max, options.seed + number)
        outcomes.append(_play(plan, kills, options.seed + number, options.limit))
    print("all of these kills in one round:")
    kills = random_kills(victims, int(SHARE_BETWEEN_KILLS * undisturbed.bytes_passed), options.seed)
    outcomes.append(_play(plan, kills, options.seed, options.limit))
    failed = sum(bool(outcome.problems) for outcome in outcomes)
    print(f"{len(outcomes)} rounds, {sum(len(one.kills) for one in outcomes)} kills, {failed} rounds failed")
    return int(failed > 0)


def _play(plan: Plan, kills: Sequence[Kill], seed: int, limit_s: float) -> Outcome:
    started_s = time.monotonic()
    outcome = asyncio.run(play(plan, kills, seed=seed, limit_s=limit_s))
    seconds = time.monotonic() - started_s
    for kill, progress in outcome.kills:
        print(f"  {kill.victim} killed after {kill.after_bytes:,} bytes: {progress}")
    verdict = "\n".join(outcome.problems) or "every pod bound once and known to the daemon, nothing left over"
    print(f"  seed {seed}, {outcome.bytes_passed:,} bytes to the end, {seconds:.1f} s: {verdict}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
