"""Files of recorded answers: gzipped JSON lines, one cluster a line. What cannot be read is named by line and field."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from schedulerd.kubernetes.objects.decode import MalformedObject, decode
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates import plugins
from schedulerd.kubernetes.predicates.cluster_cache import ClusterCache
from schedulerd.kubernetes.predicates.pod_info import read_info, read_pending
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.quantity import MalformedQuantity
from schedulerd.kubernetes.resources import pod_requests, read_quantities

LINES_MAX = 1_000_000
LINE_BYTES_MAX = 16 * 2**20
FILE_BYTES_MAX = 8 * 2**30
"""Unpacked."""

_PLUGINS = {plugin.name for plugin in plugins.ALL}


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """What a plugin said of a node that it refused."""

    code: str = ""
    """Empty if it did not refuse."""
    reasons: tuple[str, ...] = ()


PASSED = Answer()


class Case(msgspec.Struct, frozen=True, rename="camel"):
    """A cluster, a pod to place, and what each plugin said of the nodes that it refused."""

    pod: Pod
    pods: tuple[Pod, ...]
    nodes: tuple[Node, ...]
    answers: dict[str, dict[str, Answer]] = msgspec.field(name="verdicts")
    """By plugin and node."""


class UnreadableFile(Exception):
    """The file, or a line of it, is not as it should be; the message says where."""


def read_cases(path: Path) -> Iterator[tuple[int, Case]]:
    """The cases with their line numbers, counted from 1. Raises UnreadableFile."""
    size = 0
    try:
        with gzip.open(path) as file:
            for number in range(1, LINES_MAX + 1):
                line = file.readline(LINE_BYTES_MAX + 1)
                if not line:
                    return
                size += len(line)
                if len(line) > LINE_BYTES_MAX or size > FILE_BYTES_MAX:
                    raise UnreadableFile(f"line {number}: too long; at most {LINE_BYTES_MAX} bytes a line are read")
                if line.strip():
                    yield number, read_case(number, line)
            if file.readline(1):
                raise UnreadableFile(f"more than {LINES_MAX} lines")
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableFile(f"{path}: {error}") from error


def read_case(number: int, line: bytes) -> Case:
    """The case in a line of this number. Raises UnreadableFile."""
    try:
        case = decode(Case, line)
    except MalformedObject as error:
        raise UnreadableFile(f"line {number}: {error}") from error
    problem = next(_problems(case), None)
    if problem is not None:
        raise UnreadableFile(f"line {number}: {problem}")
    return case


def cluster_of(case: Case) -> tuple[Predicates, Pod]:
    """The case's cluster, and its pod; uids are made up, as they need not be in the file."""
    view = Predicates(ClusterCache())
    for node in case.nodes:
        view.cache.put_node(node)
    for number, pod in enumerate(case.pods):
        view.cache.put_pod(with_uid(pod, f"pod {number}"))
    asked = with_uid(case.pod, "the pod")
    if not asked.spec.node_name:
        view.cache.put_pod(asked)
    return view, asked


def with_uid(pod: Pod, uid: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid))


def _problems(case: Case) -> Iterator[str]:
    """Fields of the right type that cannot be what they should be."""
    yield from _pod_problems("pod", case.pod)
    for number, pod in enumerate(case.pods):
        yield from _pod_problems(f"pods[{number}]", pod)
    names: set[str] = set()
    for number, node in enumerate(case.nodes):
        name = node.metadata.name
        if not name or name in names:
            yield f"nodes[{number}].metadata.name: {name[:80]!r} is empty or not unique"
        names.add(name)
        try:
            read_quantities(node.status.allocatable)
        except MalformedQuantity as error:
            yield f"nodes[{number}].status.allocatable: {error}"
    for plugin, by_node in case.answers.items():
        if plugin not in _PLUGINS:
            yield f"verdicts: no plugin {plugin[:80]!r}"
        yield from (f"verdicts.{plugin}: no node {name[:80]!r}" for name in by_node if name not in names)


def _pod_problems(where: str, pod: Pod) -> Iterator[str]:
    try:
        pod_requests(pod)
    except MalformedQuantity as error:
        yield f"{where}.spec.containers.resources.requests: {error}"
    problem = read_pending(pod, read_info(pod)).problem
    if problem is not None:
        yield f"{where}.{problem[0]}: {problem[1]}"
