"""Names that tenants choose reach the terminal of an operator: over the interface, the API and every command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.commands import Command
from schedulerd.terminal import cli, get, queue, top
from schedulerd.terminal.api_client import ApiClient
from schedulerd.terminal.words import clean
from schedulerd.wire.decode import RequestDecoder
from tests.loops import examples
from tests.unit.core.builders import RM, Conversation, a_conversation, a_queue_spec, a_root
from tests.unit.daemon.admin.api.api_world import ApiWorld

PARTS = (
    *("\x1b[31m", "\x1b]0;title\x07", "\x9b2J", "\r\n", "\x00", "\x7f", "\u2028"),
    *("\u202e", "\u2066", "\u200f", "\u200b", "\ufeff", "\U000e0041"),
    *("[red]", "[/]", "[link=x]", ":smile:", "<script>", "&lt;", "'\"", "\\", "%s{}", "../", "=HYPERLINK("),
    *("a", "b-1", "é", "\U0001f600"),
)
NAMES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=6).map("".join)

DECODER = RequestDecoder()


def told(names: tuple[str, ...]) -> Conversation:
    """A node, an application of a user, and an ask of a pod that no node fits, as a resource manager sends them."""
    node, app, user, key, namespace, pod = names
    talk = a_conversation(root=a_root(a_queue_spec("b")))
    one = si_pb2.Resource(resources={"memory": si_pb2.Quantity(value=1)})
    large = si_pb2.Resource(resources={"memory": si_pb2.Quantity(value=1_000)})
    tags = {"kubernetes.io/meta/namespace": namespace, "kubernetes.io/meta/podName": pod}
    info = si_pb2.NodeInfo(nodeID=node, action=si_pb2.NodeInfo.CREATE, schedulableResource=one, attributes=tags)
    ugi = si_pb2.UserGroupInformation(user=user, groups=[user])
    new = si_pb2.AddApplicationRequest(applicationID=app, queueName="root.b", ugi=ugi, tags={"namespace": namespace})
    ask = si_pb2.AllocationAsk(
        applicationID=app, allocationKey=key, resourceAsk=large, maxAllocations=1, tags=tags, taskGroupName=pod
    )
    commands: tuple[Command, ...] = (
        *DECODER.nodes(si_pb2.NodeRequest(rmID=RM, nodes=[info])),
        *DECODER.applications(si_pb2.ApplicationRequest(rmID=RM, new=[new])),
        *DECODER.allocations(si_pb2.AllocationRequest(rmID=RM, asks=[ask])),
    )
    for command in commands:
        talk.step(command)
    talk.schedule()
    return talk


@contextmanager
def api_of(world: ApiWorld) -> Iterator[None]:
    """The commands talk to this API."""

    def answer(_client: ApiClient, path: str, query: Any = None) -> Any:
        return world.get(path, **{key: value for key, value in (query or {}).items() if value not in ("", None)})

    with patch.object(ApiClient, "get", answer), patch.dict("os.environ", SCHEDULERD_CONTEXTS="/nonexistent/none.yaml"):
        yield


@pytest.mark.interpreted
@given(st.tuples(*[NAMES] * 6))
@settings(max_examples=examples(8), deadline=None, derandomize=True, database=None, phases=[Phase.generate])
def test_no_name_controls_a_terminal(names: tuple[str, ...]) -> None:
    node, app, user, key, namespace, pod = names
    world = ApiWorld(told(names))
    assert world.get("/asks")["items"][0]["ask"] == key  # it did arrive
    with api_of(world):
        for command, *words in (
            (get.get, "nodes"),
            (get.get, "apps"),
            (get.get, "asks"),
            (get.get, "users"),
            (get.get, "nodes", "-o", "yaml"),
            (get.get, "asks", "-o", "json"),
            (cli.explain, "--", app),
            (cli.explain, "--", "app", app, key),
            (cli.explain, "--", "pod", f"{namespace}/{pod}"),
            (cli.explain, "-o", "yaml", "--", "app", app, key),
            (cli.explain, "queue", "root"),
            (top.top,),
            (queue.queue, "root.b"),
        ):
            result = CliRunner().invoke(command, words)
            assert result.exit_code in (0, 2, 3), (words, result.output, result.exception)
            for line in result.output.split("\n"):
                assert clean(line) == line, words
        shown = CliRunner().invoke(get.get, ["nodes"]).output
        assert clean(node).strip() in shown  # and what looks like markup is there as it was written
        data = json.loads(CliRunner().invoke(get.get, ["apps", "-o", "json"]).output)
        assert [one["user"] for one in data if one["application"] == app] == [user]
