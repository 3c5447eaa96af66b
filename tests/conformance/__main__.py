"""`python -m tests.conformance [--dir DIR] [NAME...] [--level visible|order|full] [--all] [--dump OUT] [-v]`"""

from __future__ import annotations

import argparse
import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path

from tests.conformance.compare import Level
from tests.conformance.documented import HERE, families, family_of
from tests.conformance.runner import Outcome, PredicateResult, run


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    names = _chosen(options.dir, options.names, options.all)
    if not names:
        print(f"no scenario in {options.dir} matches {' '.join(options.names) or 'scope.toml'}", file=sys.stderr)
        return 2
    results = []
    for name in names:
        result = run(options.dir, name, options.level)
        if options.dump and result.answer is not None:
            _dump(options.dump, name, result.answer)
        print(_line(result, options.verbose))
        results.append(result)
    failed = sum(result.outcome is Outcome.FAIL for result in results)
    skipped = [result.name for result in results if result.outcome is Outcome.SKIPPED]
    if skipped:
        print(f"{len(skipped)} skipped: {' '.join(skipped)}")
    if not options.names and options.dir == HERE and not options.all:
        left_out = len(_stems(HERE)) - len(names)
        print(f"{left_out} more are not promised yet (reasons in scope.toml); --all plays them too")
    print(f"{len(results) - failed - len(skipped)} passed, {failed} failed")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description="Plays recorded scenarios.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="scenarios, * and ? allowed; default: the promised ones"
    )
    parser.add_argument("--dir", type=Path, default=HERE, help="folder with scenarios/ and expected/")
    parser.add_argument("--level", type=Level, choices=list(Level), default=Level.VISIBLE)
    parser.add_argument("--all", action="store_true", help="also the scenarios that scope.toml does not promise yet")
    parser.add_argument("--dump", type=Path, metavar="OUT", help="write what we answered to OUT/NAME.json")
    parser.add_argument("-v", "--verbose", action="store_true", help="every difference, not only the first")
    return parser


def _chosen(folder: Path, patterns: list[str], everything: bool) -> list[str]:
    """Names given on the command line are played whether promised or not; scope.toml is about our own copies only."""
    names = _stems(folder)
    if patterns:
        return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if everything or folder != HERE:
        return names
    known = families()
    return [name for name in names if (family := family_of(name, known)) is not None and family.promised]


def _stems(folder: Path) -> list[str]:
    return sorted(path.stem for path in (folder / "scenarios").glob("*.json"))


def _line(result: PredicateResult, verbose: bool) -> str:
    shown = result.sentences if verbose else result.sentences[:1]
    lines = [f"{result.name}: {result.outcome.value}" + (f": {shown[0]}" if shown else "")]
    lines += [f"    {sentence}" for sentence in shown[1:]]
    return "\n".join(lines)


def _dump(folder: Path, name: str, answer: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(answer, sort_keys=True, separators=(",", ":")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
