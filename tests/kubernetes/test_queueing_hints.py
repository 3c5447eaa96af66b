"""Every refusal has changes that may lift it, but for those that only the pod itself can lift."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.known_pod import JudgedPod
from schedulerd.kubernetes.predicates.pod_info import read_info, read_pending
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.predicates.queueing_hints import lifting
from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal
from tests.kubernetes.builders import affinity, anti_affinity, bound, node, pod, selector, spread, term
from tests.kubernetes.judging import view_of
from tests.loops import each_row

WEB = {"app": "web"}
TERM = term("zone", selector(**WEB))
NOTHING_LIFTS = {Code.NODE_NAME, Code.NODE_UNKNOWN, Code.DEVICE_CLAIM, Code.MALFORMED}
"""Another node is registered anew with the daemon, and device claims are not supported."""


def view() -> Predicates:
    other = bound("a", "n", labels=WEB, affinity=anti_affinity(TERM))
    return view_of([node("n", {"zone": "a"}), node("m", {"zone": "b"})], [other])


def asked() -> Pod:
    both = {**affinity(TERM), **anti_affinity(TERM)}
    return pod("p", labels=WEB, affinity=both, topologySpreadConstraints=[spread("zone", selector(**WEB))])


@each_row("code", Code)
def test_what_lifts_a_refusal(code: Code) -> None:
    cluster = view().cache.state
    judged = JudgedPod(read_pending(asked(), read_info(asked())), cluster)
    refusal = Refusal("", Kind.UNSCHEDULABLE, code, ("TCP", 80, "0.0.0.0"))
    assert bool(list(lifting(judged, "n", [refusal], cluster))) == (code not in NOTHING_LIFTS)


@pytest.mark.parametrize("ignores_pods", [False, True])
def test_a_pod_that_is_there_and_counts_as_gone(ignores_pods: bool) -> None:
    """The first matching pod that counts is the second one in the zone."""
    cluster, waits = view(), pod("p", affinity=affinity(TERM))
    refusals = cluster.judge(waits, "n", gone=["a"], first_only=True)
    assert [one.code for one in refusals] == [Code.POD_AFFINITY]
    cluster.note_refused("p", waits, "n", refusals, ignores_pods=ignores_pods)
    cluster.cache.put_pod(bound("b", "n", labels=WEB))
    cluster.cache.refused.settle()
    assert cluster.cache.refused.take_woken(9) == (["p"] if ignores_pods else [])


def test_a_pod_that_asks_for_something_else_is_woken() -> None:
    cluster, waits = view(), pod("p", affinity=affinity(term("zone", selector(app="db"))))
    cluster.cache.put_pod(waits)
    cluster.note_refused("p", waits, "n", cluster.judge(waits, "n", first_only=True))
    cluster.cache.put_pod(
        pod("p", affinity=affinity(term("zone", selector(app="db"))), meta={"annotations": {"a": "b"}})
    )
    assert cluster.cache.refused.woken == 0
    cluster.cache.put_pod(pod("p", affinity=affinity(TERM)))
    assert cluster.cache.refused.woken == 1


def test_nothing_is_kept_of_a_pod_that_needs_no_node() -> None:
    cluster, waits = view(), asked()
    cluster.cache.put_pod(waits)
    cluster.note_refused("p", waits, "n", cluster.judge(waits, "n"))
    assert "p" in cluster.cache.refused
    cluster.cache.remove_pod("p")
    assert "p" not in cluster.cache.refused
    assert not cluster.cache.refused.has_waiting
    assert cluster.cache.state.counters.in_use == 0
