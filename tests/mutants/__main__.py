"""`python -m tests.mutants [WORDS ..]`: whether each mutant is found by all that has to find it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.mutants.catalogue import MUTANTS


def main(arguments: Sequence[str]) -> int:
    """Returns 1 if a mutant is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of names or rules of mutants; all mutants without")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    options = parser.parse_args(arguments)
    words: list[str] = options.words
    chosen = [
        at
        for at, one in enumerate(MUTANTS)
        if not words or any(word in one.name or word in one.rule.value for word in words)
    ]
    survivors = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for at, (text, is_found) in zip(chosen, pool.map(_played, chosen), strict=True):
            survivors += not is_found
            print(f"{MUTANTS[at].name}: {text}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants are found")
    return 1 if survivors else 0


def _played(at: int) -> tuple[str, bool]:
    """What is found wrong with a mutant, and whether every finder found something."""
    began = time.process_time()
    try:
        found = MUTANTS[at].found()
    except Exception as error:  # noqa: BLE001 the others are to be played all the same
        return repr(error), False
    seconds = time.process_time() - began
    texts = (text or f"NOT FOUND by {finder}" for text, finder in zip(found, MUTANTS[at].finders, strict=True))
    return f"{'; '.join(texts)} ({seconds:.1f} s of CPU)", all(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
