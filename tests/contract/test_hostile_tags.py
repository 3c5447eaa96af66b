"""Texts that once ended the daemon: each is now refused with a reason, and the daemon goes on."""

from __future__ import annotations

import grpc
import pytest

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc
from schedulerd._generated.si.v1 import si_pb2
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient, allocated

CREATES = """
partitions:
  - name: default
    placementrules:
      - name: provided
        create: true
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
"""
QUOTA, APPLICATIONS = "namespace.resourcequota", "namespace.resourcemaxapps"
QUOTA_OF = '{"resources": {"memory": {"value": %s}}}'
HOSTILE = {
    "digits": {APPLICATIONS: "9" * 5_000},
    "brackets": {QUOTA: "[" * 60_000},
    "objects": {QUOTA: '{"resources":' * 4_000},
    "exponent": {QUOTA: QUOTA_OF % "1e400"},
    "infinity": {QUOTA: QUOTA_OF % "Infinity"},
    "nan": {"namespace.resourceguaranteed": QUOTA_OF % "NaN"},
    "above-int64": {QUOTA: QUOTA_OF % 2**63},
    "a-long-number": {QUOTA: QUOTA_OF % ("9" * 5_000)},
    "parent": {"namespace.parentqueue": "root..\0"},
}
WHAT_IS_ALLOWED = {
    "digits": "must be a whole number from 0 (no limit) to 18446744073709551615",
    "brackets": "the text must have at most 32768 characters",
    "objects": "the text must have at most 32768 characters",
    **dict.fromkeys(("exponent", "infinity", "nan"), "a number must be whole, without decimals or exponent"),
    **dict.fromkeys(("above-int64", "a-long-number"), f"must be a whole number from {-(2**63)} to {2**63 - 1}"),
    "parent": "must be the path of a queue: names with a dot between them",
}
LARGEST = 2**63 - 1


def application(client: RawClient, name: str, tags: dict[str, str]) -> si_pb2.AddApplicationRequest:
    one = client.application(name).new[0]
    one.queueName = f"root.ns-{name}"
    one.tags.update(tags)
    return one


def test_every_text_is_refused_with_a_reason_and_the_daemon_lives() -> None:
    with DaemonProcess() as daemon, RawClient(daemon.target, "rm") as client:
        client.register(CREATES)
        admin = admin_pb2_grpc.AdminStub(client.channel)
        stream, applications, nodes = client.allocations(), client.applications(), client.nodes()
        nodes.send(client.node("node-0"))
        applications.send(client.application("app-1"))
        applications.until(lambda got: any(response.accepted for response in got))
        request = client.application("good")
        request.new[0].tags[QUOTA] = QUOTA_OF % LARGEST
        request.new[0].queueName = "root.good"
        request.new.extend(application(client, name, tags) for name, tags in HOSTILE.items())
        applications.send(request)
        got = applications.until(lambda got: sum(len(one.rejected) for one in got) == len(HOSTILE))
        assert [one.applicationID for response in got for one in response.accepted] == ["good"]
        reasons = {one.applicationID: one.reason for response in got for one in response.rejected}
        assert list(reasons) == list(HOSTILE)
        for name, (tag,) in HOSTILE.items():
            assert reasons[name].startswith(f"tags[{tag}] is ")
            assert WHAT_IS_ALLOWED[name] in reasons[name]
        listed = admin.ListEvents(admin_pb2.ListEventsRequest(), timeout=LIMIT_SECONDS)
        amounts = {event.record.resource.resources["memory"].value for event in listed.events}
        assert LARGEST in amounts
        stream.send(client.asks("app-1", ["pod"]))
        assert [one.allocationKey for one in allocated(stream.until(lambda got: bool(allocated(got))))] == ["pod"]
        for delay in ("9" * 2_000, "1" * 60_000 + "s", "1.s" * 30_000):
            broken = CREATES + f'            properties: {{preemption.delay: "{delay}"}}\n'
            answer = admin.ValidateConfiguration(
                admin_pb2.ValidateConfigurationRequest(config=broken), timeout=LIMIT_SECONDS
            )
            assert "too long to read" in str(answer)
        headers = (("schedulerd-received", "9" * 5_000), ("schedulerd-sent", "0"))
        with pytest.raises(grpc.RpcError) as refused:
            list(client.stub.UpdateNode(iter([client.node("n")]), timeout=LIMIT_SECONDS, metadata=headers))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        state = daemon.state()
        assert state["violations"] == []
        assert not [line for line in daemon.lines if "Traceback" in line]


def test_sums_above_int64_are_shown_as_the_largest_int64_everywhere() -> None:
    with DaemonProcess() as daemon, RawClient(daemon.target, "rm") as client:
        client.set_up()
        nodes = client.nodes()
        for number in range(3):
            request = client.node(f"large-{number}")
            request.nodes[0].schedulableResource.resources["memory"].value = LARGEST
            nodes.send(request)
        stream = client.allocations()
        stream.send(client.asks("app-1", [f"pod-{number}" for number in range(3)], memory=LARGEST))
        stream.until(lambda got: len(allocated(got)) == 3)
        (manager,) = daemon.state(rm="rm")["resource_managers"]
        root = next(queue for queue in manager["partitions"][0]["queues"] if queue["path"] == "root")
        assert root["allocated"]["memory"] == manager["partitions"][0]["total"]["memory"] == LARGEST
        assert daemon.metric(
            "schedulerd_allocated_resources", rm="rm", partition="default", queue="root", resource="memory"
        ) == pytest.approx(3 * LARGEST)
        assert daemon.state()["violations"] == []
