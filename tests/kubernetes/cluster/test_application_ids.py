"""Ids of applications between the shim and the daemon."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import PendingReason
from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.events import Event
from schedulerd.kubernetes.metadata.application_ids import ApplicationId, ApplicationIds
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.reasons.sentences import why_skipped
from schedulerd.kubernetes.shim.application_ids import from_daemon, in_words, to_daemon
from schedulerd.kubernetes.shim.daemon_link import DaemonLink
from schedulerd.kubernetes.shim.pending_reasons import waiting_of
from tests.kubernetes.builders import app, node, placed
from tests.kubernetes.cluster.gang_play import accepted, made, member, started
from tests.kubernetes.cluster.play import Play, of

NAMESPACES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
NAMES = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=63)


@given(NAMESPACES, NAMES)
def test_an_id_is_read_as_it_was_written(namespace: str, name: str) -> None:
    for one, ids in (
        (ApplicationId(namespace, name), ApplicationIds.NAMESPACED),
        (ApplicationId("", name), ApplicationIds.BARE),
    ):
        assert from_daemon(to_daemon(one), ids) == one


@given(NAMESPACES, NAMES, NAMESPACES, NAMES)
def test_two_ids_are_two_for_the_daemon(namespace: str, name: str, other_namespace: str, other_name: str) -> None:
    one, other = ApplicationId(namespace, name), ApplicationId(other_namespace, other_name)
    assert (to_daemon(one) == to_daemon(other)) is (one == other)


@pytest.mark.parametrize(
    ("ids", "awaited", "said"),
    [
        (ApplicationIds.NAMESPACED, "ns.big", "big"),
        (ApplicationIds.NAMESPACED, "other.big.one", "big.one of namespace other"),
        (ApplicationIds.BARE, "other.big", "other.big"),
    ],
)
def test_the_application_that_is_placed_first_is_said_in_the_words_of_the_pod(
    ids: ApplicationIds, awaited: str, said: str
) -> None:
    reason = PendingReason(applicationID="ns.a", awaitedApplicationID=awaited, state=PendingReason.AWAITING_GANG)
    assert why_skipped(waiting_of(reason, ids)) == f"the gang of application {said} came earlier and is placed first"


def begun_again(ids: ApplicationIds, *pods: Pod) -> tuple[Play, list[e.CreatePod]]:
    """Another shim starts with these pods; the placeholder pods that it creates."""
    play = Play(application_ids=ids)
    report = play.start(node(), *pods)
    return play, accepted(play, list(report.applications))


def test_a_shim_with_other_ids_takes_over_the_placeholders_of_a_gang_and_so_does_the_first_one_after_it() -> None:
    """The ids are those of the daemon alone: names of placeholder pods have to be the same for every shim."""
    old, new = ApplicationIds.BARE, ApplicationIds.NAMESPACED
    members = [member(name, members=6) for name in ("w0", "w1", "w2", "w3", "w4", "w5")]
    play = started(application_ids=old)
    created = accepted(play, play.put(*members))
    names = [one.name for one in created]
    assert len(names) == len(set(names)) == 6
    there = [placed(made(created[0]), "n"), made(created[1])]
    play, created = begun_again(new, *members, *there)
    assert [one.name for one in created] == names[2:]
    assert play.cluster.model.applications.keys() == {app("a")}
    there += [made(created[0]), made(created[1])]
    play, created = begun_again(old, *members, *there)
    assert [one.name for one in created] == names[4:]
    there += [made(one) for one in created]
    effects = play.put(*there[4:])
    assert of(effects, e.DeletePod) == [], "none is there twice"
    play, created = begun_again(new, *members, *there)
    assert created == []
    assert of(play.wait(1), e.DeletePod) == []


def test_sentences_name_applications_of_the_own_namespace_as_its_pods_do() -> None:
    own = ApplicationId("red", "spark-1")
    for said, told in (
        ("application red.spark-1 is completing", "application spark-1 is completing"),
        (
            "incomplete gang red.spark-1 is released for the earlier gang red.b",
            "incomplete gang spark-1 is released for the earlier gang b",
        ),
        ("applicationID 'red.spark-1' is in use", "applicationID 'spark-1' is in use"),
        (
            "makes room on red.node for ask k of application blue.b",
            "makes room on red.node for ask k of application blue.b",
        ),
        ("queue root.red.x is at its max", "queue root.red.x is at its max"),
    ):
        assert in_words(said, own) == told
        assert in_words(said, ApplicationId("", "red.spark-1")) == said


def test_what_the_daemon_says_of_an_application_reaches_its_pods_in_their_words() -> None:
    heard: list[Event] = []
    link = DaemonLink(Cluster(), heard.extend, lambda release: None)
    link.take_applications(
        si_pb2.ApplicationResponse(
            rejected=[
                si_pb2.RejectedApplication(applicationID="red.a", reason="the gang of application red.a is too large")
            ],
            updated=[
                si_pb2.UpdatedApplication(applicationID="red.a", state="Failed", message="application red.a is Failed")
            ],
        )
    )
    link.take_allocations(
        si_pb2.AllocationResponse(
            released=[
                si_pb2.AllocationRelease(
                    applicationID="red.a",
                    UUID="1",
                    terminationType=si_pb2.PREEMPTED_BY_SCHEDULER,
                    message="makes room on n1 for ask k of application red.b",
                )
            ],
            rejected=[
                si_pb2.RejectedAllocationAsk(applicationID="red.a", reason="applicationID 'red.a' is in state Failing")
            ],
        )
    )
    said = [getattr(one, "reason", getattr(one, "message", "")) for one in heard]
    assert len(said) == 4
    assert not any("red." in one for one in said), said
