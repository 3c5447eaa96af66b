"""`python -m tests.contract.journal_check JOURNAL`: plays a journal again and prints what came of it, as JSON.

It needs the core and the standard library only, so it runs under any Python, with nothing installed.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from pathlib import Path

from schedulerd.core.language.facts.fact import Allocated
from schedulerd.journal import Digest, Entry, Journal, Proof
from schedulerd.journal.encode import facts_bytes


def main(path: Path) -> None:
    journal = Journal.open(path)
    scheduler = journal.header.scheduler(lambda pattern, text: re.search(pattern, text) is not None)
    proof = Proof()
    proved = 0
    wrong: list[int] = []
    uuids: list[str] = []
    for record in journal:
        match record:
            case Entry():
                facts = scheduler.step(record.now.monotonic_ns, record.command)
                proof.add(facts_bytes(facts))
                uuids += [fact.uuid for fact in facts if isinstance(fact, Allocated)]
            case Digest():
                proved = record.entries
                if record != proof.digest():
                    wrong.append(proved)
    print(
        json.dumps(
            {
                "python": platform.python_version(),
                "commands": proof.entries,
                "proved": proved,
                "wrong": wrong,
                "digest": proof.digest().hexdigest,
                "uuids": uuids,
                "end": journal.end,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
