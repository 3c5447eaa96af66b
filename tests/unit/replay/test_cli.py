"""`schedulerd replay` as it is called: what it prints, on which stream, and its exit codes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from schedulerd import __version__
from schedulerd.cli import main
from schedulerd.config import matches
from schedulerd.core.language.commands import Command, UpdateAllocations
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.scheduler import Scheduler
from schedulerd.journal_files.blocks import MAGIC, block
from tests.instants import at
from tests.unit.journal.build import begin
from tests.unit.replay.commands import CONNECT, CYCLE, ask, node, queue_file, release, submit
from tests.unit.replay.recorded import QUEUES, START_NS, a_header, a_history, registration, timed, write_journal

SMALL = timed(
    (0, registration(queue_file(1))),
    (0, CONNECT),
    (0, node()),
    (1, submit()),
    (2, ask("k1", "k2")),
    (2, CYCLE),
    (5, release("k1")),
    (5, CYCLE),
    (9, release("k2")),
)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_journal(tmp_path_factory.mktemp("journal"), a_history())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_journal(tmp_path_factory.mktemp("journal"), SMALL)


@pytest.fixture
def new_file(tmp_path: Path) -> Path:
    file = tmp_path / "new.yaml"
    file.write_text(queue_file(2))
    return file


class Ended(NamedTuple):
    stdout: str
    stderr: str


Run = Callable[..., Ended]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls the command as `schedulerd` does, and checks the exit code."""

    def run(*arguments: object, code: int = 0) -> Ended:
        monkeypatch.setattr(sys, "argv", ["schedulerd", "replay", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "100")
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert (ended.value.code or 0) == code, printed
        return Ended(printed.out, printed.err)

    return run


# check ----------------------------------------------------------------------------------------------------------------


def test_check_says_how_much_is_the_same_and_how_fast(run: Run, journal: Path) -> None:
    result = run(journal, "--check")
    assert "journal abc of schedulerd" in result.stdout
    assert re.search(rf"{len(a_history()):,} commands, [\d,]+ facts, \d+ digests: all the same", result.stdout)
    assert re.search(r"[\d,]+ commands/s", result.stdout)
    assert "the journal ends after" in result.stderr
    assert "schedulerd was stopped" in result.stderr


def test_check_for_machines(run: Run, journal: Path) -> None:
    said = json.loads(run(journal, "--check", "--json").stdout)
    assert said["commands"] == said["proven_commands"] == len(a_history())
    assert said["digests"] == len(a_history()) // 100 + 1
    assert said["facts"] > 5_000
    assert said["commands_per_s"] > 0


def test_check_tells_where_it_differs(run: Run, tmp_path: Path) -> None:
    other = write_journal(tmp_path, a_history(), a_header(uuid_seed=6))
    result = run(other, "--check", code=1)
    assert result.stderr.endswith("not reproduced: the facts of commands 1 to 100 differ from the record\n")
    assert result.stdout == ""


def test_a_journal_of_another_version_that_differs_is_said_to_be_one(run: Run, tmp_path: Path) -> None:
    old = replace(a_header(uuid_seed=6), version="0.0.9")
    result = run(write_journal(tmp_path, a_history(), old), "--check", code=1)
    assert f"; the journal is of schedulerd 0.0.9, and this is {__version__}" in result.stderr


def test_commands_behind_the_last_digest_are_said(run: Run, tmp_path: Path) -> None:
    torn = cut(write_journal(tmp_path, a_history()), 20)
    result = run(torn, "--check")
    assert re.search(r"\d+ commands at the end have no digest behind them", result.stdout)
    assert "bytes of" in result.stderr


def cut(journal: Path, count: int) -> Path:
    """Takes some bytes off the end, as a crash does."""
    (file,) = journal.glob("*.journal")
    content = file.read_bytes()
    file.write_bytes(content[:-count])
    return journal


# the state ------------------------------------------------------------------------------------------------------------


def test_alone_it_prints_the_state_at_the_end(run: Run, small: Path) -> None:
    state = json.loads(run(small).stdout)
    assert state["violations"] == []
    (partition,) = state["resource_managers"][0]["partitions"]
    assert [one["application_id"] for one in partition["applications"]] == ["app"]
    assert partition["applications"][0]["allocations"] == []


@pytest.mark.parametrize("until", ["4", "2023-11-14T22:13:24Z"])
def test_until_is_another_end(run: Run, small: Path, until: str) -> None:
    state = json.loads(run(small, "--until", until).stdout)
    (application,) = state["resource_managers"][0]["partitions"][0]["applications"]
    assert [one["allocation_key"] for one in application["allocations"]] == ["k1"]
    (waiting,) = application["asks"]
    assert "queue root.a is at its quota" in waiting["waiting_for"]


# explain --------------------------------------------------------------------------------------------------------------


def test_explain_is_a_table(run: Run, small: Path) -> None:
    printed = run(small, "--explain", "k2").stdout
    assert "k2: ask; seconds since 2023-11-14T22:13:20.000000Z" in printed
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines() if "│" in line]
    assert [(time, event) for time, event, _ in lines if event] == [
        ("2.000", "ask added"),
        ("2.000", "waits"),
        ("5.000", "allocated"),
        ("9.000", "released"),
    ]
    text = " ".join(details for _, _, details in lines)
    assert "queue root.a is at its quota: 1 of 1 cpu used" in text
    assert "waited 3.00 s" in text


def test_explain_for_machines(run: Run, small: Path) -> None:
    story = json.loads(run(small, "--explain", "app", "--json").stdout)
    assert (story["id"], story["kinds"]) == ("app", ["application"])
    assert story["rows"][0]["at"] == "2023-11-14T22:13:21.000000Z"
    allocated = [row for row in story["rows"] if row["event"] == "allocated"]
    assert [row["allocation_key"] for row in allocated] == ["k1", "k2"]
    assert allocated[0]["resources"] == {"vcore": 1_000}


def test_asks_that_differ_in_nothing_else_are_one_line(run: Run, journal: Path) -> None:
    printed = run(journal, "--explain", "spark-00050").stdout
    assert re.search(r"ask added +│ allocation key spark-00050-0002 and \d+ more", printed)


def test_an_id_that_does_not_occur_has_near_ones(run: Run, small: Path) -> None:
    result = run(small, "--explain", "k3", code=1)
    assert "Error: k3 does not occur; there are k2, k1" in result.stderr


# what if --------------------------------------------------------------------------------------------------------------


def test_what_if_holds_three_worlds_side_by_side(run: Run, small: Path, new_file: Path) -> None:
    printed = run(small, "--config", new_file).stdout
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines() if "│" in line]
    assert rows[:3] == [
        ["root.a", "recorded", "2", "0", "0 ms", "3.00 s", "3.00 s"],
        ["", "same file", "2", "0", "0 ms", "3.00 s", "3.00 s"],
        ["", "new file", "2", "0", "0 ms", "0 ms", "0 ms"],
    ]
    assert rows[3:] == [
        ["root.a", "recorded", "78%", "100%", "", "", "0", ""],
        ["", "same file", "78%", "100%", "", "", "0", ""],
        ["", "new file", "39%", "100%", "", "", "0", ""],
    ]
    assert "recorded 9.000 s, same file 9.000 s, new file 6.000 s" in printed


def test_what_if_for_machines(run: Run, small: Path, new_file: Path) -> None:
    said = json.loads(run(small, "--config", new_file, "--json").stdout)
    assert list(said["worlds"]) == ["recorded", "same file", "new file"]
    queue = next(one for one in said["worlds"]["new file"]["queues"] if one["path"] == "root.a")
    assert queue["waits"] == {"count": 2, "median_ns": 0, "p95_ns": 0, "max_ns": 0}
    assert said["end"] == "2023-11-14T22:13:29.000000Z"


def test_what_if_names_items_that_are_rejected_only_there(run: Run, small: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text("partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: b}]}]}]")
    result = run(small, "--config", file)
    assert "Rejected under the new file only: application app:" in result.stdout
    assert "no such queue" in result.stdout


def test_what_if_under_a_file_without_the_partition_nothing_is_placed(run: Run, small: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(queue_file().replace("name: default", "name: other"))
    printed = run(small, "--config", file).stdout
    assert "same file 9.000 s, new file never" in printed
    assert "[recorded]default root.a" in printed
    assert "Rejected under the new file only: application app: partitionName '' is not a partition" in printed


def test_before_the_first_command_there_is_nothing(run: Run, small: Path, new_file: Path) -> None:
    before = ("--until", "-1")
    assert "0 commands, 0 facts, 0 digests" in run(small, "--check", *before).stdout
    assert json.loads(run(small, *before).stdout)["resource_managers"] == []
    assert run(small, "--explain", "app", *before, code=1).stderr == "Error: app does not occur\n"
    said = json.loads(run(small, "--config", new_file, "--json", *before).stdout)
    assert (said["start"], said["end"]) == ("2023-11-14T22:13:20.000000Z", None)


def test_whose_file_it_is_has_to_be_said_if_there_were_several(run: Run, tmp_path: Path, new_file: Path) -> None:
    several = write_journal(tmp_path, [*SMALL, (START_NS + 10**10, registration(QUEUES, rm_id="rm-2"))])
    unclear = run(several, "--config", new_file, code=1)
    assert "the resource managers had different queue files" in unclear.stderr
    assert "choose one with --rm" in unclear.stderr
    assert "no resource manager 'rm-3' registered" in run(several, "--config", new_file, "--rm", "rm-3", code=1).stderr
    assert "new file 6.000 s" in run(several, "--config", new_file, "--rm", "recorded").stdout


# what goes wrong ------------------------------------------------------------------------------------------------------


def test_a_journal_that_is_not_there(run: Run, tmp_path: Path) -> None:
    assert "there is no journal" in run(tmp_path, "--check", code=2).stderr
    assert "there is no journal" in run(tmp_path / "nowhere", "--check", code=2).stderr


def test_an_empty_one_and_one_of_another_format(run: Run, tmp_path: Path) -> None:
    empty = tmp_path / "000001.journal"
    empty.write_bytes(b"")
    assert "ends within its header" in run(tmp_path, code=2).stderr
    empty.write_bytes(b"not a journal at all, but long enough to look at")
    assert str(empty) in run(tmp_path, code=2).stderr
    old = a_header().to_values() | {"format": 0}
    empty.write_bytes(MAGIC + block(json.dumps(old).encode()))
    assert "its format is 0, written by schedulerd" in run(tmp_path, code=2).stderr


def test_a_journal_in_which_nothing_happened(run: Run, tmp_path: Path, new_file: Path) -> None:
    idle = write_journal(tmp_path, [])
    assert "0 commands, 0 facts, 0 digests: all the same" in run(idle, "--check").stdout
    assert json.loads(run(idle).stdout)["resource_managers"] == []
    assert "recorded never, same file never, new file never" in run(idle, "--config", new_file).stdout
    assert run(idle, "--explain", "k1", code=1).stderr == "Error: k1 does not occur\n"


def test_a_torn_tail_is_said_and_the_rest_is_played(run: Run, tmp_path: Path) -> None:
    result = run(cut(write_journal(tmp_path, a_history()), 20), "--explain", "spark-00050")
    assert "application accepted" in result.stdout
    assert "were left out" in result.stderr


def test_a_queue_file_that_is_not_valid_or_not_there(run: Run, small: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("partitions: [{name: default, queues: [{name: root, unknown: 1}]}]\n")
    assert "unknown" in run(small, "--config", bad, code=3).stderr
    assert "cannot be read" in run(small, "--config", tmp_path / "missing.yaml", code=2).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--check", "--explain", "k1"], "choose one"),
        (["--rm", "rm"], "--rm needs --config"),
        (["--explain", ""], "--explain needs an id"),
        (["--until", "noon"], "'noon' is not a time"),
    ],
)
def test_wrong_usage(run: Run, small: Path, options: list[str], message: str) -> None:
    assert message in run(small, *options, code=1).stderr


def test_a_command_that_makes_the_scheduler_fail_is_shown_after_the_story(
    run: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Scheduler.step

    def fail(scheduler: Scheduler, now_ns: int, command: Command) -> list[Fact]:
        if isinstance(command, UpdateAllocations) and command.releases:
            raise ZeroDivisionError("a bug")
        return step(scheduler, now_ns, command)

    monkeypatch.setattr(Scheduler, "step", fail)
    result = run(small, "--explain", "k1", code=1)
    assert "allocated" in result.stdout
    assert "in fail" in result.stderr
    assert "ZeroDivisionError: a bug" in result.stderr
    assert "command 7 at 2023-11-14T22:13:25.000000Z makes the scheduler fail: UpdateAllocations(" in result.stderr


# a wall clock that was set --------------------------------------------------------------------------------------------


@pytest.fixture
def set_back(tmp_path: Path) -> Path:
    """`SMALL`, but the wall clock was set back by an hour before the cycle at 5 s."""
    header = a_header()
    recorder = begin(tmp_path, header)
    scheduler = header.scheduler(matches)
    for now_ns, command in SMALL:
        now = at(now_ns)
        is_set = now_ns >= START_NS + 5 * SECOND_NS
        recorder.command(now._replace(wall_ns=now.wall_ns - is_set * 3_600 * SECOND_NS), command)
        recorder.facts(scheduler.step(now_ns, command))
    assert recorder.close("schedulerd was stopped")
    return recorder.directory


def test_a_story_counts_by_the_monotonic_clock_and_shows_the_wall_time_of_each_step(run: Run, set_back: Path) -> None:
    story = json.loads(run(set_back, "--explain", "k2", "--json").stdout)
    assert [(row["event"], row["at"][11:19]) for row in story["rows"]] == [
        ("ask added", "22:13:22"),
        ("waits", "22:13:22"),
        ("allocated", "21:13:25"),
        ("released", "21:13:29"),
    ]
    printed = run(set_back, "--explain", "k2").stdout
    assert re.search(r"5\.000 │ allocated .*", printed)
    assert "waited 3.00 s" in " ".join(printed.split())


@pytest.mark.parametrize(("until", "commands"), [("4", 6), ("2023-11-14T21:13:26Z", 0), ("2023-11-14T22:13:23Z", 9)])
def test_until_ends_before_the_first_command_after_it_on_its_clock(
    run: Run, set_back: Path, until: str, commands: int
) -> None:
    assert json.loads(run(set_back, "--until", until, "--check", "--json").stdout)["commands"] == commands
