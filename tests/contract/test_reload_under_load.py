"""Reloads while 10,000 asks are under way: every ask is placed once, still pending, or rejected with a reason."""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path
from typing import Any

from schedulerd._generated.schedulerd.v1 import admin_pb2_grpc
from schedulerd._generated.si.v1 import si_pb2
from tests.config_map import ConfigMap
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient, allocated

ROUNDS = 10
ASKS_PER_MESSAGE = 50
MESSAGES_PER_ROUND = 20
ASKS = ROUNDS * ASKS_PER_MESSAGE * MESSAGES_PER_ROUND
MEMORY = 10
ROOM_IN_FULL = 300
"""How many asks the queue `full` has room for, in every version of the file."""


def a_file(*, a_max: int | None, with_c: bool) -> str:
    """The queue `a` has room for `a_max` asks (None: any number); `c` is there or removed."""
    quota = "" if a_max is None else f"\n            resources: {{max: {{memory: {a_max * MEMORY}}}}}"
    return f"""
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a{quota}
          - name: full
            resources: {{max: {{memory: {ROOM_IN_FULL * MEMORY}}}}}
{"          - name: c" if with_c else ""}
"""


FILES = (
    a_file(a_max=100, with_c=False),
    a_file(a_max=2_000, with_c=True),
    a_file(a_max=1, with_c=False),
    a_file(a_max=None, with_c=True),
)


class Load:
    """A resource manager that goes on asking, and the reloads that happen to it meanwhile."""

    def __init__(self, daemon: DaemonProcess, client: RawClient, config_map: ConfigMap) -> None:
        self._daemon = daemon
        self._client = client
        self._config_map = config_map
        self._admin = admin_pb2_grpc.AdminStub(client.channel)
        self._applications = client.applications()
        self.allocations = client.allocations()
        self._keys = count()
        self.asked: dict[str, str] = {}
        """Application of each key."""
        self.accepted: set[str] = set()

    def submit(self, round_: int) -> list[str]:
        """One application for each queue, whether it is there at present or not; waits for the answers."""
        names = [f"{queue}-{round_}" for queue in ("a", "full", "c")]
        for name in names:
            self._applications.send(self._client.application(name, f"root.{name.split('-')[0]}"))
        answers = self._applications.until(
            lambda got: sum(len(one.accepted) + len(one.rejected) for one in got) == len(names)
        )
        self.accepted |= {one.applicationID for answer in answers for one in answer.accepted}
        return names

    def ask(self, applications: list[str], messages: int) -> None:
        """Sends asks without waiting for anything."""
        for at in range(messages):
            application = applications[at % len(applications)]
            keys = [f"k{next(self._keys)}" for _ in range(ASKS_PER_MESSAGE)]
            self.asked |= dict.fromkeys(keys, application)
            self.allocations.send(self._client.asks(application, keys, memory=MEMORY, vcore=0))

    def reload(self, round_: int, applications: list[str]) -> None:
        """Changes the configuration in one of three ways, with asks on their way to the daemon."""
        text = FILES[round_ % len(FILES)]
        self.ask(applications, MESSAGES_PER_ROUND // 2)
        if round_ % 3 == 1:
            self._update(si_pb2.UpdateConfigurationRequest(rmID="rm", config=text))
        elif round_ % 3 == 2:  # it lives by the text that was sent, and goes back to the file
            self._config_map.swap(text)
            self._update(si_pb2.UpdateConfigurationRequest(rmID="rm", policyGroup="queues"))
        else:
            self.reload_file(text)
        self.ask(applications, MESSAGES_PER_ROUND // 2)

    def reload_file(self, text: str) -> None:
        self._config_map.swap(text)
        self._daemon.signal(signal.SIGHUP)
        self._daemon.wait_for_event("queue file reloaded")

    def _update(self, request: si_pb2.UpdateConfigurationRequest) -> None:
        answer = self._admin.UpdateConfiguration(request, timeout=LIMIT_SECONDS)
        assert answer.success, answer.reason
        self._daemon.wait_for_event("queue file reloaded")


def an_application(daemon: DaemonProcess, application_id: str) -> dict[str, Any]:
    """All of it, from `/debug/state`, and no nodes: the less there is to show, the sooner the next look comes."""
    answer = daemon.state(application=application_id, node="none")
    assert not answer["left_out"].keys() & {"asks", "allocations of applications"}
    (application,) = answer["resource_managers"][0]["partitions"][0]["applications"]
    return dict(application)


def test_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    config_map = ConfigMap(tmp_path, a_file(a_max=50, with_c=True))
    flags = ["--config", str(config_map.path), "--queue-file-poll-s", "0", "--early-message-timeout-s", "0"]
    flags += ["--recount-items-max", "100000"]
    with DaemonProcess(*flags) as daemon, RawClient(daemon.target) as client:
        client.register(config="")
        nodes = client.nodes()
        for number in range(20):
            nodes.send(client.node(f"node-{number}", memory=ASKS * MEMORY // 20))
        nodes.until(lambda got: sum(len(one.accepted) for one in got) == 20)
        load = Load(daemon, client, config_map)
        for round_ in range(ROUNDS):
            load.reload(round_, load.submit(round_))
        assert len(load.asked) == ASKS
        load.reload_file(FILES[-1])
        waiting = sum(application.startswith("full") for application in load.asked.values()) - ROOM_IN_FULL
        answers = load.allocations.until(
            lambda got: len(allocated(got)) + sum(len(one.rejected) for one in got) >= ASKS - waiting
        )
        shown = [an_application(daemon, application_id) for application_id in sorted(load.accepted)]
        assert daemon.state()["violations"] == []

    placed = {one.allocationKey: one.UUID for one in allocated(answers)}
    rejected = {one.allocationKey: one.reason for answer in answers for one in answer.rejected}
    pending = {ask["allocation_key"] for application in shown for ask in application["asks"]}
    assert len(allocated(answers)) == len(placed) == len(set(placed.values())), "placed twice"
    assert len(placed) + len(rejected) + len(pending) == ASKS, "lost, or in two places"
    assert placed.keys() | rejected.keys() | pending == load.asked.keys()
    in_state = [one for application in shown for one in application["allocations"]]
    assert {one["allocation_key"]: one["uuid"] for one in in_state} == placed
    assert len(in_state) == len(placed)
    assert {load.asked[key] for key in pending} <= load.accepted
    assert len(pending) == waiting
    refused = set(load.asked.values()) - load.accepted
    assert rejected.keys() == {key for key, application in load.asked.items() if application in refused}
    assert all(rejected.values()), "without a reason"
    assert len(refused) == ROUNDS // 2, "those that came while their queue was not there"
