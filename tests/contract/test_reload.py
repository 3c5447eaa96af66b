"""SIGHUP: a running daemon takes over a changed queue file, all of it or nothing."""

from __future__ import annotations

import grp
import os
import pwd
import signal
from pathlib import Path

import grpc
import pytest

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


def test_a_reload_is_all_or_nothing_and_wakes_what_a_raised_quota_has_room_for(tmp_path: Path) -> None:
    queue_file = tmp_path / "queues.yaml"
    queue_file.write_text(QUEUES)

    with DaemonProcess("--config", str(queue_file)) as daemon, RawClient(daemon.target) as client:
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
        problem = daemon.wait_for_event("queue file not reloaded: nothing changed")["problem"]
        assert "partitions[0]" in problem

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


def test_a_configuration_sent_with_the_registration_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    queue_file = tmp_path / "queues.yaml"
    queue_file.write_text(QUEUES)
    with DaemonProcess("--config", str(queue_file)) as daemon, RawClient(daemon.target, "own") as own:
        own.register(config=QUEUES)
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
def test_an_rm_id_has_to_be_fit_to_be_read(rm_id: str) -> None:
    with DaemonProcess() as daemon, RawClient(daemon.target, rm_id) as client:
        with pytest.raises(grpc.RpcError) as refused:
            client.register()
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "rmID" in (refused.value.details() or "")
