"""A daemon full of objects, brought there over its real ports: running and waiting asks, a gang, names from hell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from schedulerd._generated.si.v1 import si_pb2
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient, resource

HOSTILE = (
    "\x1b[31;1mred\x1b[0m",
    "[bold red]markup[/bold red][link=file:///etc/passwd]x[/link]",
    "\u202egnp.exe\u2066",
    "a\r\nError: forged line",
    "\x9b2J\x07bell\x00nul",
    "<script>alert(1)</script>&amp;'\"",
    "../../../etc/passwd",
    "\u200b\ufeff\u2028\U000e0001 tags",
)
"""Names as a tenant may choose them."""

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            resources: {max: {memory: 100, vcore: 100}, guaranteed: {memory: 10}}
            limits:
              - {limit: one user, users: [testuser], maxresources: {vcore: 100}}
          - name: b
"""


@contextmanager
def a_busy_daemon(*flags: str) -> Iterator[tuple[DaemonProcess, RawClient]]:
    """Queue root.a is full: `app-1` has 10 allocations and waits for 3 more. In root.b an ask of `hostile` waits for a
    node that is large enough; `gang` waits for its placeholders. Nodes have names from `HOSTILE`."""
    with DaemonProcess(*flags) as daemon, RawClient(daemon.target, "rm-1") as client:
        client.set_up(nodes=2, memory=1_000, vcore=1_000, config=QUEUES)
        nodes, applications, allocations = client.nodes(), client.applications(), client.allocations()
        for name in HOSTILE:
            nodes.send(client.node(name, memory=0, vcore=0))
        nodes.until(lambda got: sum(len(one.accepted) for one in got) == len(HOSTILE))
        for number, name in enumerate(HOSTILE):
            request = client.application(f"hostile-{number} {name}", "root.b")
            request.new[0].ugi.user = name
            request.new[0].tags["namespace"] = name
            applications.send(request)
        gang = client.application("gang", "root.b")
        gang.new[0].placeholderAsk.CopyFrom(resource(memory=5_000))
        applications.send(gang)
        applications.send(client.application("small", "root.b"))
        applications.until(lambda got: sum(len(one.accepted) for one in got) == len(HOSTILE) + 2)
        allocations.send(client.asks("app-1", [f"k-{number}" for number in range(13)]))
        allocations.until(lambda got: sum(len(one.new) for one in got) == 10)
        allocations.send(_hostile_asks(client))
        allocations.send(client.asks("gang", ["gang-1"], memory=5_000))
        allocations.send(client.asks("small", ["last"]))
        allocations.until(lambda got: any(one.new for one in got))  # so all asks before it are there
        yield daemon, client
        for stream in (nodes, applications, allocations):
            stream.cancel()


def _hostile_asks(client: RawClient) -> si_pb2.AllocationRequest:
    """One ask in each application with a name from hell; no node is large enough for them."""
    asks = si_pb2.AllocationRequest(rmID=client.rm_id)
    for number, name in enumerate(HOSTILE):
        one = client.asks(f"hostile-{number} {name}", [name], memory=1_000_000).asks[0]
        one.tags["kubernetes.io/meta/namespace"] = name
        one.tags["kubernetes.io/meta/podName"] = name
        asks.asks.append(one)
    return asks
