"""The player's own arithmetic: aliases, UUIDs by age, confirmations in order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schedulerd.core.language.specs import OptOut
from tests.conformance.compare import Json, Level
from tests.conformance.player import play
from tests.conformance.runner import OPT_OUT_RULE, Outcome, PredicateResult, run
from tests.conformance.steps import Unsupported

CONFIG = 'partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: a}]}]}]'
NODE = {"nodes": [{"id": "n1", "resources": {"memory": 100}}]}
APPLICATION = {"apps": [{"id": "app1", "queue": "root.a", "user": "u1", "groups": []}]}


def played(*steps: Json, **extra: object) -> list[Json]:
    checks: list[Json] = play({"name": "s", "config": CONFIG, "steps": [NODE, APPLICATION, *steps], **extra})["checks"]
    return checks


def ask(key: str, count: int = 1) -> Json:
    return {"asks": [{"key": key, "app": "app1", "resources": {"memory": 10}, "maxAllocations": count}]}


def test_aliases_show_in_every_key_and_never_change_what_is_sent() -> None:
    aliases = [{"pattern": r"^(ph)\d+$", "replace": "${1}*"}]
    first, second = played(
        ask("ph7"),
        {"schedule": 1},
        {"check": "placed"},
        {"releaseAllocs": [{"app": "app1", "key": "ph7"}]},
        {"check": "released"},
        aliases=aliases,
    )
    assert [event["key"] for event in first["events"] if event["ev"] == "alloc"] == ["ph*"]
    assert first["snapshot"]["nodes"]["n1"]["allocations"] == ["app1|ph*"]
    assert [event["key"] for event in second["events"] if event["ev"] == "released"] == ["ph*"]


def test_a_release_takes_the_oldest_allocation_of_a_key_or_the_one_with_that_index() -> None:
    second_node = {"nodes": [{"id": "n2", "resources": {"memory": 100}}]}
    (check,) = played(
        ask("k", 2),
        {"schedule": 1},
        second_node,
        {"schedule": 1},
        {"releaseAllocs": [{"app": "app1", "key": "k", "index": 1}]},
        {"check": "x"},
    )
    assert check["snapshot"]["apps"]["app1"]["allocations"] == ["k@n1"]


def test_a_step_or_feature_that_this_version_lacks_is_said() -> None:
    with pytest.raises(Unsupported, match="step dance"):
        played({"dance": True})
    with pytest.raises(Unsupported, match="moodMs"):
        played(timeouts={"moodMs": 1})


def test_a_queue_file_that_is_invalid_gives_an_error_and_no_checks() -> None:
    result = play(
        {
            "name": "s",
            "config": "partitions: [{name: default, queues: [{name: not a name}]}]",
            "steps": [{"check": "x"}],
        }
    )
    assert result["registerError"]
    assert result["checks"] == []


def test_an_update_that_cannot_be_read_is_an_event_with_the_reason_and_changes_nothing() -> None:
    (check,) = played({"updateConfig": "partitions: ["}, {"check": "x"})
    (event,) = [event for event in check["events"] if event["ev"] == "configUpdate"]
    assert "not valid YAML" in event["error"]
    assert set(check["snapshot"]["queues"]) == {"root", "root.a"}


def test_an_update_says_that_it_holds() -> None:
    more = CONFIG.replace("{name: a}", "{name: a}, {name: b}")
    (check,) = played({"updateConfig": more}, {"check": "x"})
    assert [event["error"] for event in check["events"] if event["ev"] == "configUpdate"] == [""]
    assert "root.b" in check["snapshot"]["queues"]


def test_users_of_all_partitions_are_added_up() -> None:
    queues = '[{name: root, submitacl: "*", queues: [{name: a}]}]'
    config = f"partitions: [{{name: default, queues: {queues}}}, {{name: gpu, queues: {queues}}}]"
    there: Json = {"partition": "gpu"}
    (check,) = played(
        {"nodes": [{"id": "g1", "resources": {"memory": 100}, **there}]},
        {"apps": [{"id": "app2", "queue": "root.a", "user": "u1", "groups": [], **there}]},
        {"asks": [{"key": "k", "app": "app2", "resources": {"memory": 7}, **there}]},
        ask("k"),
        {"schedule": 2},
        {"check": "x"},
        config=config,
    )
    usage = check["snapshot"]["users"]["u1"]["queues"]["root.a"]
    assert usage == {"usage": {"memory": 17}, "runningApps": ["app1", "app2"]}
    assert set(check["snapshot"]["nodes"]) == {"n1"}


# Opt-outs: to the peer they are a wish


def run_recorded(folder: Path, spoil: bool, policy: Json) -> PredicateResult:
    """A daemon comes to a full node, recorded as the peer answers it; or, spoilt, as nobody does."""
    asks = ask("mine")
    asks["asks"][0] |= {"resources": {"memory": 100}, "preemptionPolicy": policy}
    daemon = ask("d")
    daemon["asks"][0]["tags"] = {"yunikorn.apache.org/requiredNode": "n1"}
    steps = [NODE, APPLICATION, {"apps": [{"id": "ds", "queue": "root.a", "user": "u1", "groups": []}]}, asks]
    daemon["asks"][0]["app"] = "ds"
    steps += [{"schedule": 2}, daemon, {"schedule": 2}, {"check": "x"}]
    scenario: Json = {"name": "s", "config": CONFIG, "steps": steps}
    recorded = play(scenario, OptOut.LAST)
    if spoil:
        recorded["checks"][0]["events"].pop(0)
    for kind, content in (("scenarios", scenario), ("expected", recorded)):
        (folder / kind).mkdir()
        (folder / kind / "s.json").write_text(json.dumps(content))
    return run(folder, "s", Level.ORDER)


OPTED_OUT = {"allowPreemptSelf": False, "allowPreemptOther": True}


def test_where_an_ask_opts_out_the_recording_is_right_that_is_ours_under_the_rule_of_the_peer(tmp_path: Path) -> None:
    result = run_recorded(tmp_path, spoil=False, policy=OPTED_OUT)
    assert (result.outcome, result.sentences) == (Outcome.DOCUMENTED, [OPT_OUT_RULE])
    assert result.answer is not None
    assert not [event for event in result.answer["checks"][0]["events"] if event["ev"] == "released"]


def test_where_an_ask_opts_out_another_recording_is_wrong_all_the_same(tmp_path: Path) -> None:
    assert run_recorded(tmp_path, spoil=True, policy=OPTED_OUT).outcome is Outcome.FAIL


def test_where_no_ask_opts_out_there_is_one_rule(tmp_path: Path) -> None:
    policy = {"allowPreemptSelf": True, "allowPreemptOther": True}
    assert run_recorded(tmp_path, spoil=False, policy=policy).outcome is Outcome.OK
