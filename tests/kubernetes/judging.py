"""One pod against one node: what a single plugin says."""

from __future__ import annotations

from collections.abc import Iterable

from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.cluster_cache import ClusterCache
from schedulerd.kubernetes.predicates.plugins import ALL
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal


def view_of(nodes: Iterable[Node], pods: Iterable[Pod] = ()) -> Predicates:
    view = Predicates(ClusterCache())
    for node in nodes:
        view.cache.put_node(node)
    for pod in pods:
        view.cache.put_pod(pod)
    return view


def refusal(view: Predicates, pod: Pod, node: str, plugin: str, gone: Iterable[str] = ()) -> Refusal | None:
    """The refusal of this plugin, which gives one at most; None if it admits the pod."""
    found = view.judge(pod, node, [one for one in ALL if one.name == plugin], gone)
    assert len(found) <= 1
    return found[0] if found else None


def code(view: Predicates, pod: Pod, node: str, plugin: str, gone: Iterable[str] = ()) -> Code | None:
    found = refusal(view, pod, node, plugin, gone)
    return None if found is None else found.code


def refused_nodes(view: Predicates, pod: Pod, plugin: str) -> set[str]:
    return {name for name in view.cache.node_names if refusal(view, pod, name, plugin) is not None}


UNSCHEDULABLE, UNRESOLVABLE = Kind.UNSCHEDULABLE, Kind.UNRESOLVABLE
