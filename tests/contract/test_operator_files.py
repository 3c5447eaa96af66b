"""What a daemon makes of configuration that would hold it: expressions that never end, files that are no files."""

from __future__ import annotations

import os
import queue
import signal
from pathlib import Path
from typing import Any

import grpc
import httpx

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc
from schedulerd.core.language.checks import ID_LENGTH_MAX
from schedulerd.daemon.server import VALIDATIONS_WAITING_MAX
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import QUEUES, RawClient

BACKTRACKING = """
partitions:
  - name: default
    placementrules:
      - name: provided
        filter: {users: ["^(a+)+$"], groups: ["^(a|a)*$"]}
      - name: fixed
        value: root.a
    queues:
      - name: root
        submitacl: "*"
        queues: [{name: a}]
"""


def test_a_filter_that_backtracking_never_ends_with_blocks_no_client() -> None:
    with DaemonProcess() as daemon, RawClient(daemon.target) as client:
        client.register(config=BACKTRACKING)
        applications = client.applications()
        names = [f"app-{number}" for number in range(50)]
        for name in names:
            one = client.application(name, "root.none")
            one.new[0].ugi.user = "a" * (ID_LENGTH_MAX - 1) + "!"
            one.new[0].ugi.groups[:] = ["a" * (ID_LENGTH_MAX - 1) + "!"] * 3
            applications.send(one)
        assert httpx.get(f"{daemon.url}/livez", timeout=LIMIT_SECONDS).status_code == 200
        accepted: list[str] = []
        while len(accepted) < len(names):
            accepted += [one.applicationID for one in applications.next().accepted]
        assert accepted == names
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0


def replaced_by_a_fifo(queue_file: Path) -> None:
    fifo = queue_file.with_name("fifo")
    os.mkfifo(fifo)
    fifo.rename(queue_file)


def test_a_queue_file_that_becomes_a_fifo_holds_neither_registrations_nor_the_end(tmp_path: Path) -> None:
    queue_file = tmp_path / "queues.yaml"
    queue_file.write_text(QUEUES)
    flags = ("--config", str(queue_file), "--queue-file-poll-s", "0.05")
    with DaemonProcess(*flags) as daemon, RawClient(daemon.target) as client, RawClient(daemon.target, "rm-2") as other:
        client.register(config="")
        replaced_by_a_fifo(queue_file)
        (reason,) = daemon.wait_for_event("queue file not reloaded: nothing changed")["reasons"]
        sentence = f"{queue_file} of policyGroup 'queues' cannot be read: it is a FIFO; it must be a regular file"
        assert sentence in reason
        daemon.signal(signal.SIGHUP)
        daemon.wait_for_event("queue file not reloaded: nothing changed")
        client.register(config="")
        (told,) = daemon.wait_for_event("queue file cannot be used: the registration gets its last valid text")[
            "reasons"
        ]
        assert sentence in told
        other.register(config=QUEUES)
        (root,) = [one["partitions"][0]["queues"][0] for one in daemon.state(rm="rm")["resource_managers"]]
        assert root["path"] == "root", "the first registration holds"
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0


def test_registrations_do_not_wait_for_validations_and_neither_does_the_end() -> None:
    """The texts take seconds each, all of them together longer than any wait of this test."""
    large = admin_pb2.ValidateConfigurationRequest(config="- [a, b, c, d]\n" * 15_000)
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    under_way = 1 + VALIDATIONS_WAITING_MAX
    with DaemonProcess() as daemon, RawClient(daemon.target) as client, grpc.insecure_channel(daemon.target) as channel:
        validate = admin_pb2_grpc.AdminStub(channel).ValidateConfiguration
        calls = [validate.future(large) for _ in range(under_way + 3)]
        for call in calls:
            call.add_done_callback(done.put)
        for _ in range(3):
            refused = done.get(timeout=LIMIT_SECONDS)
            assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert refused.details() == f"{under_way} validations are under way or waiting already; try again later"
        client.register(config=QUEUES)
        client.register(config="")
        assert httpx.get(f"{daemon.url}/metrics", timeout=LIMIT_SECONDS).status_code == 200
        assert sum(not call.done() for call in calls) >= under_way - 2
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
