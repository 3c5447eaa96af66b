"""The recorded stories are answered as recorded, and a wrong answer is noticed."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.rest import __main__, causes, replay
from tests.rest.asgi import Answer
from tests.rest.compare import differences, normalized
from tests.rest.of_head import Translation
from tests.rest.rules import EXCUSES
from tests.rest.story import in_ids_of, read_answers, read_story
from tests.rest.transforms import TRANSFORMS

GOLDEN = Path(__file__).parent / "golden"
STORIES = replay.stories(GOLDEN)

Json = Any
Change = Callable[[Json], None]


@cache
def played(name: str, recorded: str) -> replay.Result:
    return replay.replay(GOLDEN, name, recorded)


def test_the_stories() -> None:
    assert STORIES == ["s1", "s3", "s5", "s5b", "s6", "s7"]


@pytest.mark.parametrize("recorded", ["head", pytest.param("1.4", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", STORIES)
def test_every_recorded_answer_agrees(name: str, recorded: str) -> None:
    result = played(name, recorded)
    assert not [line for line in replay.report(result) if "recorded" in line and ", ours " in line]
    assert result.count("not equal") == 0
    judged = {(one.phase, one.name) for one in result.judgements}
    assert judged == {(one["phase"], one["name"]) for one in read_answers(GOLDEN / f"{recorded}-{name}.jsonl.gz")}


DECIDED = {
    "no partition": {
        ("s1", "errors"): {"err_partition_usage_user", "err_partition_usage_users"},
        ("s6", "before-registration"): {"usage_groups", "usage_users"},
    },
    "unclaimed": {
        ("s7", "unhealthy"): {
            *("node-utilizations", "nodes", "partitions", "queue_root.q1", "queue_root.q1_subtree", "queues"),
        },
    },
}
"""By the rule of a decision against YuniKorn: the answers of head that would be equal without that decision."""


def test_the_answers_of_head_are_equal_without_any_rule_but_for_those_that_a_decision_changes() -> None:
    """The numbers are exact: an answer that needs a rule that it did not need is a change for somebody's client."""
    results = {name: played(name, "head") for name in STORIES}
    assert {one.recorded for one in results.values()} == {"head"}
    for rule, answers in DECIDED.items():
        found = [(name, one) for name in STORIES for one in results[name].judgements if one.rules == (rule,)]
        assert {(name, one.phase, one.name) for name, one in found} == {
            (name, phase, one) for (name, phase), those in answers.items() for one in those
        }
    decided = sum(len(those) for answers in DECIDED.values() for those in answers.values())
    assert (sum(one.count("equal") for one in results.values()), decided) == (840, 10)


@pytest.mark.slow
def test_every_rule_is_needed() -> None:
    used: Counter[str] = Counter()
    for name in STORIES:
        for recorded in ("head", "1.4"):
            used.update(rule for one in played(name, recorded).judgements for rule in one.rules)
    assert {rule.name for rule in (*TRANSFORMS, *EXCUSES)} - used.keys() == NEEDED_ELSEWHERE


NEEDED_ELSEWHERE = {"later code", "profiles"}
"""Rules for answers that are not in these stories."""


def body(change: Change) -> Change:
    return lambda answer: change(answer["response"]["body"])


def status(number: int) -> Change:
    return lambda answer: answer["response"].__setitem__("status", number)


def header(name: str, text: str) -> Change:
    return lambda answer: answer["response"]["headers"].__setitem__(name, text)


def put(key: str, value: Json) -> Change:
    return body(lambda found: found.__setitem__(key, value))


WRONG = [
    ("queues", put("queuename", "root2")),
    ("queues", put("runningApps", 17)),
    ("queues", put("newKey", 1)),
    ("queues", body(lambda found: found["children"].pop())),
    ("queues", body(lambda found: found["children"][0].pop("isLeaf"))),
    ("queue_root.prod.web", put("currentPriority", 4)),
    ("queue_root.prod.web", put("isLeaf", 1)),
    ("queue_root.prod.web", body(lambda found: found["headroom"].update(vcore=1))),
    ("partitions", body(lambda found: found[0]["applications"].update(total=7))),
    ("partitions", body(lambda found: found[0].update(totalContainers=11))),
    ("partitions", body(lambda found: found[0]["capacity"]["utilization"].update(memory=18))),
    ("usage_user_alice", body(lambda found: found["queues"]["resourceUsage"].update(memory=1))),
    ("usage_users", body(lambda found: found.pop())),
    ("applications_active", body(lambda found: found[0].update(applicationState="Accepted"))),
    ("applications_active", body(lambda found: found[0]["stateLog"].pop())),
    ("applications_active", body(lambda found: found[0].update(startTime=-62135596800000))),
    ("applications_active", body(lambda found: found.append({"applicationID": "another"}))),
    ("application_app-fin-1", body(lambda found: found["allocations"].pop())),
    ("application_app-web-1", body(lambda found: found["requests"][0].update(priority="17"))),
    ("nodes", body(lambda found: found[0].update(nodeID="node-17"))),
    ("nodes", body(lambda found: found[0]["capacity"].update(memory=1))),
    ("node_node-3", body(lambda found: found.update(schedulable=False))),
    ("placementrules", body(lambda found: found.pop())),
    ("config_json", body(lambda found: found.update(Checksum="0" * 64))),
    ("config_yaml", lambda answer: answer["response"].update(bodyText="partitions: []\n")),
    ("history_apps", body(lambda found: found.append({"timestamp": 1, "totalApplications": "3"}))),
    ("healthcheck", body(lambda found: found["HealthChecks"][3].update(Succeeded=False))),
    ("node-utilizations", body(lambda found: found[0]["utilizations"].pop())),
    ("clusters", body(lambda found: found[0].update(clusterName="other"))),
    ("events_batch", body(lambda found: found.update(EventRecords=found["EventRecords"][8:]))),
    ("clusters", status(404)),
    ("clusters", header("Content-Type", "text/plain")),
    ("clusters", header("Location", "/elsewhere")),
]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param(*one, id=f"{number}-{one[0]}", marks=pytest.mark.slow if number % 4 else ())
        for number, one in enumerate(WRONG)
    ],
)
def test_a_wrong_answer_is_noticed(name: str, change: Change) -> None:
    answers = [one for one in read_answers(GOLDEN / "head-s1.jsonl.gz") if one["phase"] == "running"]
    answers = [one for one in answers if one["name"] == name or one["name"] == "nodes"]
    (wrong,) = [one for one in answers if one["name"] == name]
    change(wrong)
    result = _run("s1", answers)
    assert [one.name for one in result.judgements if one.left] == [name]


MESSAGES = [
    "apps_state_bad",
    "err_user_bad",
    "err_queue_unknown_apps",
    "events_batch_count-abc",
    "err_queue_badescape_apps",
]


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_of_errors_are_equal_word_for_word(name: str) -> None:
    (wrong,) = [one for one in read_answers(GOLDEN / "head-s1.jsonl.gz") if one["name"] == name]
    wrong["response"]["body"]["message"] += "."
    (judgement,) = _run("s1", [wrong]).judgements
    assert [one.pointer for one in judgement.left] == ["/message"]


def _run(name: str, answers: list[Json]) -> replay.Result:
    story = read_story(GOLDEN / f"1.4-{name}.story.json")
    foreign = causes.foreign_of(GOLDEN / f"head-{name}.story.json")
    return asyncio.run(replay._Replay(story, answers, "head", foreign).run(name))


def test_no_rule_excuses_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> Answer:
        return Answer(500, {"content-type": "application/json"}, b"{}")

    monkeypatch.setattr(replay, "ask", fail)
    answers = [one for one in read_answers(GOLDEN / "head-s1.jsonl.gz") if one["phase"] == "errors"]
    assert _run("s1", answers).count("not equal") == len(answers)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for path in GOLDEN.glob("*-s6.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(sys, "argv", ["rest", str(tmp_path)])
    assert __main__.main() == 0
    assert capsys.readouterr().out.endswith("1 stories: 32 equal, 6 equal by rule, 0 not equal\n")
    (tmp_path / "head-s6.jsonl.gz").unlink()
    assert __main__.main() == 0
    assert "s6 (1.4): " in capsys.readouterr().out
    for path in tmp_path.iterdir():
        path.unlink()
    assert __main__.main() == 2


def test_a_story_that_cannot_be_played_does_not_agree() -> None:
    story = {"steps": [{"op": "dance"}]}
    result = asyncio.run(replay._Replay(story, [], "head", Counter()).run("x"))
    assert result.count("not equal") == 1
    assert "the step dance is not known" in "".join(replay.report(result))


def test_a_queue_file_that_is_refused_is_said() -> None:
    story = {"steps": [{"op": "register", "message": {"rmID": "rm", "config": "partitions: 5"}}]}
    result = asyncio.run(replay._Replay(story, [], "head", Counter()).run("x"))
    assert "a queue file was refused: " in "".join(replay.report(result))


def test_a_story_of_head_alone_can_be_played(tmp_path: Path) -> None:
    for name in ("head-s5b.jsonl.gz", "head-s5b.story.json"):
        (tmp_path / name).write_bytes((GOLDEN / name).read_bytes())
    result = replay.replay(tmp_path, "s5b")
    assert (result.recorded, result.count("not equal")) == ("head", 0)


def _folder(tmp_path: Path, *names: str) -> Path:
    for name in names:
        (tmp_path / name).write_bytes((GOLDEN / name).read_bytes())
    return tmp_path


def _rename_phase(answers: Path, old: str, new: str) -> None:
    with gzip.open(answers, "rt") as lines:
        text = lines.read()
    with gzip.open(answers, "wt") as file:
        file.write(text.replace(f'"phase":"{old}"', f'"phase":"{new}"'))


def test_answers_without_a_dump_are_not_equal(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "1.4-s5b.story.json", "head-s5b.jsonl.gz")
    _rename_phase(folder / "head-s5b.jsonl.gz", "usage", "at-first")
    result = replay.replay(folder, "s5b")
    assert {one.phase for one in result.judgements if one.left} == {"at-first"}
    assert result.count("not equal") == 45


def test_a_phase_that_only_head_has_is_played_with_the_steps_of_head(tmp_path: Path) -> None:
    folder = _folder(tmp_path, "1.4-s5b.story.json", "head-s5b.story.json", "head-s5b.jsonl.gz")
    _rename_phase(folder / "head-s5b.jsonl.gz", "usage", "at-first")
    story = folder / "head-s5b.story.json"
    story.write_text(json.dumps(json.loads(story.read_text())).replace('"label": "usage"', '"label": "at-first"'))
    assert replay.replay(folder, "s5b").count("not equal") == 0
    (folder / "1.4-s5b.jsonl.gz").write_bytes((GOLDEN / "1.4-s5b.jsonl.gz").read_bytes())
    assert replay.replay(folder, "s5b").recorded == "1.4"
    asked_for = replay.replay(folder, "s5b", "head")
    assert (asked_for.recorded, asked_for.count("not equal")) == ("head", 0)


def test_a_story_without_answers_is_not_equal(tmp_path: Path) -> None:
    assert replay.replay(_folder(tmp_path, "1.4-s6.story.json"), "s6").count("not equal") == 1


def test_time_between_dumps_passes_as_recorded() -> None:
    """A timeout that the peer came to before a dump."""
    story = {"steps": [{"op": "dump", "label": "a"}, {"op": "sleep", "ms": 100}, {"op": "dump", "label": "b"}]}
    request = {"method": "GET", "path": "/ws/v1/clusters", "query": "", "headers": {}, "body": ""}
    answers = [
        {"phase": label, "name": "", "takenAtNano": at, "request": request, "response": {"status": 200, "headers": {}}}
        for label, at in (("a", 5_000_000_000), ("b", 35_000_000_000))
    ]
    played = replay._Replay(story, answers, "head", Counter())
    began_ns = played._world.time.now_ns
    asyncio.run(played.run("x"))
    assert played._world.time.now_ns - began_ns == 30_000_000_000


POD = "00000000-0000-4000-8000-00000000000"


def test_pods_are_told_apart_by_their_uuids() -> None:
    there, here = [{"allocationKey": f"{POD}1"}, {"allocationKey": f"{POD}2"}], [{"allocationKey": f"{POD}1"}]
    assert len(list(differences(normalized(there), normalized(here)))) == 1
    story, other = {"steps": [f"{POD}1", f"{POD}2"]}, {"steps": [f"{POD}8", f"{POD}9"]}
    answers = [{"path": f"/{POD}9"}, {"key": f"{POD}7"}]
    assert in_ids_of(story, other, answers) == [{"path": f"/{POD}2"}, {"key": f"{POD}7"}]


def test_allocations_that_head_reports_on_nodes_are_played() -> None:
    size = {"resources": {"vcore": {"value": "500"}}}
    pods = [
        {"allocationKey": "mine", "applicationID": "app", "nodeID": "n", "resourcePerAlloc": size},
        {"allocationKey": "theirs", "nodeID": "n", "resourcePerAlloc": size, "allocationTags": {"foreign": "default"}},
    ]
    translation = Translation()
    (node,) = (translation.nodes({"rmID": "rm", "allocations": pods}) or {})["nodes"]
    assert [one["allocationKey"] for one in node["existingAllocations"]] == ["mine"]
    assert node["occupiedResource"] == size
    gone = {"releases": {"allocationsToRelease": [{"allocationKey": "theirs"}]}}
    assert (translation.nodes(gone) or {})["nodes"] == [
        {"nodeID": "n", "action": "UPDATE", "occupiedResource": {"resources": {}}}
    ]
    assert translation.nodes({"allocations": [{"allocationKey": "ask"}]}) is None
