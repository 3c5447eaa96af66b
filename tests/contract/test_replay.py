"""The example of docs/replay.md, run as it is: a demo with a journal, and the three things to do with that."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "replay.md").read_text(encoding="utf-8")
TIMEOUT_S = 90.0

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each piece of the example prints, on both streams."""
    directory = tmp_path_factory.mktemp("example")
    return [run(commands, directory) for commands in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)]


def run(commands: str, directory: Path) -> str:
    """With the `schedulerd` of this interpreter."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-e"],
        input=commands,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        cwd=directory,
        env={**os.environ, "PATH": path, "COLUMNS": "100", "PYTHONWARNINGS": "error"},
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def cells(printed: str) -> list[list[str]]:
    """Of all rows of all tables."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines() if line.startswith("│")]


def shown(start: str) -> str:
    """The output in the page that starts so."""
    (found,) = (one for one in re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S) if one.startswith(start))
    assert isinstance(found, str)
    return found


def test_the_replay_is_what_happened(printed: list[str]) -> None:
    says = r"journal \S+ of schedulerd \S+, begun \S+\n[\d,]+ commands, [\d,]+ facts, \d+ digests: all the same\n"
    for text in (printed[1], shown("journal")):
        assert re.search(says, text)
        assert re.search(r"\d\.\d\d s, [\d,]+ commands/s", text)
        assert "schedulerd was stopped" in text


def test_the_story_says_what_kept_the_notebook_waiting(printed: list[str]) -> None:
    wanted = ["application accepted", "ask added", "waits", "allocated", "released", "application forgotten"]
    for text in (printed[2], shown("notebook-00111")):
        events = [event for _, event, _ in cells(text) if event in wanted]
        assert list(dict.fromkeys(events)) == wanted
        said = " ".join(details for _, _, details in cells(text))
        assert "queue root.ml.notebooks is at its quota: 120Gi of 120Gi memory used, 4Gi more asked" in said


def test_every_world_has_a_line_for_each_queue_and_the_same_demand(printed: list[str]) -> None:
    for text in (printed[3], shown("How long asks waited")):
        worlds = waits_of_notebooks(text)
        assert list(worlds) == ["recorded", "same file", "new file"]
        asked = [sum(int(cell.replace(",", "")) for cell in row[2:4]) for row in worlds.values()]
        assert asked[0] > 0
        assert asked == asked[:1] * 3, "placed and never placed together"


def test_the_output_in_the_page_shows_that_notebooks_would_have_waited_less_with_more_quota() -> None:
    """How long anything waits in a run of our own is up to the machine. That more quota shortens it, and that the same
    file gives the same times, is tested in virtual time (`tests/unit/replay/test_what_if.py`)."""
    recorded, same, new = waits_of_notebooks(shown("How long asks waited")).values()
    assert recorded[2:4] == same[2:4] == new[2:4]
    assert milliseconds(new[5]) < milliseconds(same[5]) / 2
    assert abs(milliseconds(same[5]) - milliseconds(recorded[5])) < milliseconds(recorded[5]) / 2


def waits_of_notebooks(text: str) -> dict[str, list[str]]:
    """The row of each world."""
    rows = cells(text)
    at = next(at for at, row in enumerate(rows) if row[0] == "root.ml.notebooks")
    return {row[1]: row for row in rows[at : at + 3]}


def milliseconds(text: str) -> float:
    number, unit = text.split()
    return float(number.replace(",", "")) * {"ms": 1, "s": 1_000}[unit]
