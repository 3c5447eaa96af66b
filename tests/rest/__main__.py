"""`python -m tests.rest FOLDER [--recorded 1.4]`: plays the stories of a folder, and says how many answers agree."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.rest.replay import replay, report, stories
from tests.rest.rules import EXCUSES
from tests.rest.transforms import TRANSFORMS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rest", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder with VERSION-NAME.story.json and VERSION-NAME.jsonl.gz")
    parser.add_argument("--recorded", default="", choices=["", "head", "1.4"], help="version to compare with")
    parser.add_argument("--rules", action="store_true", help="say what each rule means")
    parser.add_argument("-v", "--verbose", action="store_true", help="show each difference that a rule excuses")
    options = parser.parse_args()
    if options.rules:
        for rule in (*TRANSFORMS, *EXCUSES):
            print(f"{rule.name}: {rule.sentence}")
    names = stories(options.folder)
    if not names:
        print(f"{options.folder} has no stories: files named VERSION-NAME.story.json")
        return 2
    totals = [0, 0, 0]
    for name in names:
        result = replay(options.folder, name, options.recorded)
        print("\n".join(report(result, explains=options.verbose)), flush=True)
        for index, kind in enumerate(("equal", "by rule", "not equal")):
            totals[index] += result.count(kind)
    print(f"{len(names)} stories: {totals[0]} equal, {totals[1]} equal by rule, {totals[2]} not equal")
    return 1 if totals[2] else 0


if __name__ == "__main__":
    sys.exit(main())
