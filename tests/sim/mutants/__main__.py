"""`python -m tests.sim.mutants [NAME ..]`: whether each mutant is found by what is known to find it.

With `--search` simulations with other seeds are tried, to find one that takes few moves. Every mutant is played in a
process of its own: `--here NAME` is what that process is asked.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path

from tests.sim.mutants.catalogue import MUTANTS
from tests.sim.mutants.mutation import Mutant, Proof, Seed, put_in

SEARCHED_SEEDS = range(1, 23)
SEARCHED_STEPS = 180
FEW_STEPS = 120
"""Of a mutant that is found in so many moves no better seed is looked for."""
ROOT = Path(__file__).parents[3]


def main(arguments: Sequence[str]) -> int:
    """Returns 1 if a mutant is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="words of the mutants' names; all mutants without")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--search", action="store_true", help="look for the seed that takes the fewest moves")
    parser.add_argument("--here", metavar="NAME", help="play one in this process, and print what is found wrong")
    options = parser.parse_args(arguments)
    if options.here is not None:
        return _here(next(one for one in MUTANTS if one.name == options.here), search=options.search)
    chosen = [one for one in MUTANTS if not options.names or any(name in one.name for name in options.names)]
    survivors = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, found in zip(chosen, pool.map(partial(found_wrong, search=options.search), chosen), strict=True):
            survivors += not found
            print(f"{mutant.name}: {found or 'NOT FOUND'}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants are found")
    return 1 if survivors else 0


def found_wrong(mutant: Mutant, *, search: bool = False) -> str:
    """What is found wrong with the mutant, '' if nothing is. Raises CalledProcessError if it cannot be put in."""
    command = [sys.executable, "-m", "tests.sim.mutants", "--here", mutant.name, *(["--search"] if search else [])]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def _here(mutant: Mutant, *, search: bool) -> int:
    put_in(mutant)
    if search:
        print(_searched())
    else:
        print(_problem(mutant.finder) if isinstance(mutant.finder, Seed) else _counterexample(mutant.finder))
    return 0


def _problem(finder: Seed) -> str:
    from tests.sim.observations import Observations  # the core must not be imported before the mutant is in it
    from tests.sim.simulation import EVERY_WORLD, simulate

    _, failure = simulate(finder.seed, finder.steps, Observations(), EVERY_WORLD, is_faulty=True)
    return failure.problems[-1].strip().splitlines()[-1] if failure is not None else ""


def _counterexample(finder: Proof) -> str:
    from hypothesis import Phase, settings

    settings.register_profile(
        "mutants",
        phases=(Phase.generate,),
        max_examples=400,
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
    )
    settings.load_profile("mutants")
    check = getattr(import_module(f"tests.{finder.module}"), finder.test)
    try:
        check()
    except Exception as error:  # noqa: BLE001 broken code may fall over before anything is judged
        return f"{finder.test}: {error!r}".splitlines()[0]
    return ""


def _searched() -> str:
    """The seed and the moves it takes, and what is found then."""
    best, steps = "", SEARCHED_STEPS
    for seed in SEARCHED_SEEDS:
        problem = _problem(Seed(seed, steps))
        while problem:
            best = f"Seed({seed}, {steps}): {problem}"
            if steps <= FEW_STEPS:
                return best
            steps = steps * 2 // 3
            problem = _problem(Seed(seed, steps))
    return best


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
