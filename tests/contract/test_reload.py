"""SIGHUP: a running daemon takes over a changed queue file, all of it or nothing."""

from __future__ import annotations

import grp
import json
import os
import pwd
import signal
from pathlib import Path

import grpc
import pytest

from tests.config_map import ConfigMap
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import QUEUES, RawClient, allocated

WITH_C = (
    QUEUES
    + """          - name: c
            resources:
              max: {memory: 20}
"""
)
C_WITHOUT_MAX = QUEUES + "          - name: c\n"


@pytest.mark.smoke
def test_a_reload_is_all_or_nothing_and_wakes_what_a_raised_quota_has_room_for(tmp_path: Path) -> None:
    queue_file = tmp_path / "queues.yaml"
    queue_file.write_text(QUEUES)

    with on_signal_alone(queue_file) as daemon, RawClient(daemon.target) as client:
        client.register(config="")
        nodes, applications, allocations = client.nodes(), client.applications(), client.allocations()
        nodes.send(client.node("node-1", memory=1000, vcore=100))
        nodes.next()
        allocations.send(client.hello())

        queue_file.write_text(WITH_C)
        daemon.signal(signal.SIGHUP)
        daemon.wait_for_event("queue file reloaded")
        applications.send(client.application("app-1", "root.c"))
        assert [one.applicationID for one in applications.next().accepted] == ["app-1"]
        allocations.send(client.asks("app-1", ["1", "2", "3", "4"]))
        first = allocations.until(lambda got: len(allocated(got)) == 2)
        assert sorted(one.allocationKey for one in allocated(first)) == ["1", "2"]

        queue_file.write_text("partitions: [nonsense]")
        daemon.signal(signal.SIGHUP)
        (reason,) = daemon.wait_for_event("queue file not reloaded: nothing changed")["reasons"]
        assert "partitions[0]" in reason
        assert daemon.metric("schedulerd_config_last_reload_successful", rm="rm") == 0

        queue_file.write_text(C_WITHOUT_MAX)
        daemon.signal(signal.SIGHUP)
        daemon.wait_for_event("queue file reloaded")
        rest = allocations.until(lambda got: len(allocated(got)) == 2)
        assert sorted(one.allocationKey for one in allocated(rest)) == ["3", "4"]

        queue_file.write_text(C_WITHOUT_MAX.replace("- name: c", "- name: c\n            parent: true"))
        daemon.signal(signal.SIGHUP)
        (reason,) = daemon.wait_for_event("queue file not reloaded: nothing changed")["reasons"]
        assert "root.c" in reason
        assert daemon.state()["violations"] == []
        results = {result: count(daemon, "rm", result) for result in ("applied", "refused", "unchanged")}
        assert results == {"applied": 2, "refused": 2, "unchanged": 0}


def on_signal_alone(queue_file: Path) -> DaemonProcess:
    """A daemon that does not look at its files by itself, so that a test knows when it reloads."""
    return DaemonProcess("--config", str(queue_file), "--queue-file-poll-s", "0")


def count(daemon: DaemonProcess, rm_id: str, result: str) -> float:
    return daemon.metric("schedulerd_reloads_total", rm=rm_id, result=result)


def test_the_queue_file_in_force_is_in_the_log_and_in_a_metric(tmp_path: Path) -> None:
    """Before anybody has registered, and after a change."""
    config_map = ConfigMap(tmp_path, QUEUES)
    with DaemonProcess("--config", str(config_map.path), "--queue-file-poll-s", "0.05") as daemon:
        first = daemon.event("queue file in force")
        assert first["source"] == str(config_map.path)
        assert daemon.metric("schedulerd_config_info", rm="", checksum=first["checksum"]) == 1
        config_map.swap(WITH_C)
        second = daemon.wait_for_event("queue file read for later registrations")
        assert second["checksum"] != first["checksum"]
        assert daemon.metric("schedulerd_config_info", rm="", checksum=second["checksum"]) == 1
        assert daemon.metric("schedulerd_config_info", rm="", checksum=first["checksum"]) == 0


def test_a_swapped_config_map_is_noticed_without_a_signal(tmp_path: Path) -> None:
    config_map = ConfigMap(tmp_path, QUEUES)
    flags = ("--config", str(config_map.path), "--queue-file-poll-s", "0.05")
    with DaemonProcess(*flags) as daemon, RawClient(daemon.target) as client:
        client.register(config="")
        config_map.swap(WITH_C)
        told = daemon.wait_for_event("queue file reloaded")
        assert (told["rm_id"], told["source"]) == ("rm", str(config_map.path))
        (rm,) = daemon.state()["resource_managers"]
        assert "root.c" in [queue["path"] for queue in rm["partitions"][0]["queues"]]
        assert (rm["configuration_source"], rm["configuration_checksum"]) == (told["source"], told["checksum"])
        assert daemon.metric("schedulerd_config_info", rm="rm", checksum=told["checksum"]) == 1
        config_map.swap(WITH_C + "# says the same\n")
        assert daemon.wait_for_event("queue file unchanged")["rm_id"] == "rm"
        assert count(daemon, "rm", "unchanged") == 1


def test_a_broken_file_is_told_even_if_no_rm_uses_it_yet(tmp_path: Path) -> None:
    queue_file = tmp_path / "queues.yaml"
    queue_file.write_text(QUEUES)
    with on_signal_alone(queue_file) as daemon:
        queue_file.write_text("partitions: [nonsense]")
        daemon.signal(signal.SIGHUP)
        (reason,) = daemon.wait_for_event("queue file not reloaded: nothing changed")["reasons"]
        assert "partitions[0]" in reason
        assert count(daemon, "", "refused") == 1
        assert daemon.metric("schedulerd_config_last_reload_successful", rm="") == 0
        queue_file.write_text(QUEUES)
        daemon.signal(signal.SIGHUP)
        daemon.wait_for_event("queue file unchanged")
        assert daemon.metric("schedulerd_config_last_reload_successful", rm="") == 1


def test_a_partition_that_goes_with_all_it_has_is_a_warning_before_it_goes(tmp_path: Path) -> None:
    queue_file = tmp_path / "queues.yaml"
    queue_file.write_text(QUEUES)
    with on_signal_alone(queue_file) as daemon, RawClient(daemon.target) as client:
        client.register(config="")
        nodes = client.nodes()
        nodes.send(client.node("node-1"))
        nodes.next()
        queue_file.write_text(QUEUES.replace("name: default", "name: renamed"))
        daemon.signal(signal.SIGHUP)
        told = daemon.wait_for_event("impact of the new queue file")
        assert (told["level"], told["kind"], told["partition"]) == ("warning", "partition_removed", "default")
        assert "removes 1 node" in told["message"]
        daemon.wait_for_event("node changed", lambda line: line["state"] == "removed")


def test_a_daemon_does_not_start_with_a_broken_file_and_says_each_problem_on_a_line(tmp_path: Path) -> None:
    queue_file = tmp_path / "queues.yaml"
    queue_file.write_text(f"partitions: [{', '.join(['nonsense'] * 30)}]")
    daemon = DaemonProcess("--config", str(queue_file))
    told = daemon.wait_for_event("cannot start")
    assert daemon.wait() == 78
    daemon.__exit__(None, None, None)
    assert told["reason"].startswith(f"{queue_file}: 30 problems; run `schedulerd validate {queue_file}`")
    problems = [line["problem"] for line in map(json.loads, daemon.lines) if line["event"] == "queue file"]
    assert problems[0].startswith("line 1: partitions[0] = 'nonsense': ")
    assert (len(problems), problems[-1]) == (21, "10 more; `schedulerd validate` shows all")


def test_a_configuration_sent_with_the_registration_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    queue_file = tmp_path / "queues.yaml"
    queue_file.write_text(QUEUES)
    with on_signal_alone(queue_file) as daemon, RawClient(daemon.target, "own") as own:
        own.register(config=QUEUES, policy_group="queues")
        with RawClient(daemon.target, "file") as file:
            file.register(config="")
            queue_file.write_text(WITH_C)
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_event("queue file reloaded", lambda line: line["rm_id"] == "file")
            paths = {
                rm["rm_id"]: [queue["path"] for queue in rm["partitions"][0]["queues"]]
                for rm in daemon.state()["resource_managers"]
            }
            assert ("root.c" in paths["file"], "root.c" in paths["own"]) == (True, False)


def test_groups_come_from_the_operating_system_where_the_queue_file_says_so() -> None:
    resolving = QUEUES.replace("    queues:\n", "    usergroupresolver: {type: os}\n    queues:\n", 1)
    by_group = resolving.replace('submitacl: "*"', f'submitacl: " {grp.getgrgid(os.getgid()).gr_name}"')
    with DaemonProcess() as daemon, RawClient(daemon.target) as client:
        client.register(config=by_group)
        applications = client.applications()
        request = client.application("app-1")
        request.new[0].ugi.user = pwd.getpwuid(os.getuid()).pw_name
        request.new[0].ugi.ClearField("groups")
        applications.send(request)
        assert [one.applicationID for one in applications.next().accepted] == ["app-1"]
        request.new[0].applicationID = "app-2"
        request.new[0].ugi.user = "nobody-of-this-name"
        applications.send(request)
        (rejected,) = applications.next().rejected
        assert "may not submit" in rejected.reason


@pytest.mark.parametrize("rm_id", ["  ", "two\nlines", "x" * 300])
def test_an_rm_id_has_to_be_fit_to_be_read(daemon: DaemonProcess, rm_id: str) -> None:
    with RawClient(daemon.target, rm_id) as client:
        with pytest.raises(grpc.RpcError) as refused:
            client.register()
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "rmID" in (refused.value.details() or "")
