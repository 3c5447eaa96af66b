"""Namespaces whose annotations change: their applications are told to the daemon again, with other tags."""

from __future__ import annotations

import msgspec
import pytest

from schedulerd.kubernetes.cluster import answers, object_changes
from schedulerd.kubernetes.cluster.effects import AddApplication, Ask, Effect, RecordEvent, RemoveApplication
from schedulerd.kubernetes.cluster.events import (
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationUpdated,
    ReportBegun,
)
from schedulerd.kubernetes.metadata.namespaces import NamespaceTags, namespace_tags
from schedulerd.kubernetes.objects.cluster import Namespace
from schedulerd.kubernetes.objects.decode import convert
from tests.kubernetes.builders import app, node
from tests.kubernetes.cluster.play import Play, of, own

APP = app("yunikorn-ns-autogen")
MOST = "namespace.resourcemaxapps"


def space(most: str = "", name: str = "ns") -> Namespace:
    annotations = {"yunikorn.apache.org/namespace.maxApps": most} if most else {}
    return convert(Namespace, {"metadata": {"name": name, "annotations": annotations}})


@pytest.fixture
def play() -> Play:
    """An application that was added with at most 2, and is accepted."""
    play = Play()
    play.start(node("n"), space("2"))
    play.put(own("p"))
    play.tell(ApplicationAccepted(APP))
    return play


def test_applications_follow_the_annotations_of_their_namespace(play: Play) -> None:
    old = play.cluster.model.applications[APP].added
    assert old is not None
    (added,) = play.put(space("3"))
    assert added == msgspec.structs.replace(old, tags={**old.tags, MOST: "3"})
    assert play.tell(ApplicationAccepted(APP)) == []
    assert play.put(space("3"), space("9", "another")) == []
    (added,) = play.put(space())
    assert isinstance(added, AddApplication)
    assert MOST not in added.tags


def test_annotations_are_read_once_for_all_applications(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be as large as 256 kB, of a namespace with thousands of applications."""
    read: list[Namespace] = []

    def counted(namespace: Namespace) -> NamespaceTags:
        read.append(namespace)
        return namespace_tags(namespace)

    monkeypatch.setattr(object_changes, "namespace_tags", counted)
    play = Play()
    play.start(node("n"), space("2"))
    names = [f"a{number}" for number in range(20)]
    play.put(*(own(name, meta={"labels": {"applicationId": name}}) for name in names))
    play.tell(*(ApplicationAccepted(app(name)) for name in names))
    assert len(of(play.put(space("3")), AddApplication)) == len(names)
    play.tell(*(ApplicationAccepted(app(name)) for name in names))
    assert len(read) == 2


def test_a_namespace_that_says_the_same_is_not_compared_with_its_applications(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write its labels and conditions, and it may have thousands of applications."""
    changed: list[str] = []
    monkeypatch.setattr(answers, "namespace_changed", lambda _, namespace: changed.append(namespace))
    play.put(space("2"), space("3"), space("3"))
    assert changed == ["ns"]


def test_what_has_changed_while_an_application_had_no_pods_is_told_with_its_next_one(play: Play) -> None:
    play.tell(ApplicationUpdated(APP, "Running", ""))
    play.gone(own("p"))
    assert play.put(space("3")) == []
    added, _ = play.put(own("q"))
    assert isinstance(added, AddApplication)
    assert added.tags[MOST] == "3"


def test_a_mistake_that_was_made_while_an_application_had_no_pods_is_told_to_its_next_one(play: Play) -> None:
    play.tell(ApplicationUpdated(APP, "Running", ""))
    play.gone(own("p"))
    play.put(space("many"))
    (event,) = (one for one in of(play.all_put(own("q")), RecordEvent) if one.reason == "NamespaceAnnotation")
    assert event.regarding.name == "q"
    assert "'many'" in event.note


def test_an_application_that_is_rejected_with_tags_of_before_is_added_at_once_with_those_of_now() -> None:
    play = Play()
    play.start(node("n"), space("2"))
    play.put(own("p"))
    assert play.put(space("3")) == []
    (added, asked) = play.tell(ApplicationRejected(APP, "too many"))
    assert isinstance(added, AddApplication)
    assert added.tags[MOST] == "3"
    assert isinstance(asked, Ask)
    assert play.tell(ApplicationRejected(APP, "too many")) == [], "these are the ones of now"


def test_what_has_changed_before_the_answer_is_told_after_it(play: Play) -> None:
    play.put(space("3"))
    assert play.put(space("4")) == []
    (added,) = play.tell(ApplicationAccepted(APP))
    assert isinstance(added, AddApplication)
    assert added.tags[MOST] == "4"
    assert play.tell(ApplicationAccepted(APP)) == []


def test_what_has_changed_is_told_to_a_daemon_that_has_lost_its_state_meanwhile(play: Play) -> None:
    play.put(space("3"))
    assert play.put(space("4")) == [], "the daemon is away"
    play.tell(ReportBegun((APP,), ()))
    (added,) = of(play.tell(ApplicationAccepted(APP)), AddApplication)
    assert added.tags[MOST] == "4"


def test_an_application_that_is_not_accepted_yet_is_told_when_it_is() -> None:
    play = Play()
    play.start(node("n"), space("2"), own("p"))
    assert play.put(space("3")) == []
    (added,) = play.tell(ApplicationAccepted(APP))
    assert isinstance(added, AddApplication)
    assert added.tags[MOST] == "3"


def test_tags_that_are_rejected_are_told_as_a_warning_and_the_application_goes_on(play: Play) -> None:
    play.put(space("3"))
    (event,) = play.all(ApplicationRejected(APP, "too many"))
    assert isinstance(event, RecordEvent)
    assert (event.reason, event.note, event.is_warning) == ("NamespaceAnnotation", "namespace: too many", True)
    play.bind("p", "n")
    assert len(of(play.put(space("4")), AddApplication)) == 1


def test_tags_that_the_daemon_has_already_are_not_told_after_others_were_rejected(play: Play) -> None:
    play.put(space("3"))
    play.tell(ApplicationRejected(APP, "too many"))
    assert play.all_put(space("2")) == [], "it would be an id that is in use"
    assert len(of(play.put(space("4")), AddApplication)) == 1
    assert play.all(ApplicationAccepted(APP)) == []
    assert len(of(play.put(space("2")), AddApplication)) == 1


def test_tags_that_are_back_before_others_are_rejected_are_not_told(play: Play) -> None:
    play.put(space("3"))
    play.put(space("2"))
    (event,) = play.all(ApplicationRejected(APP, "too many"))
    assert isinstance(event, RecordEvent)


def test_a_change_in_the_report_to_a_new_daemon_is_what_that_has(play: Play) -> None:
    play.put(space("3"))
    play.tell(ReportBegun((APP,), ("n",)), ApplicationAccepted(APP))
    (added,) = play.put(space("2"))
    assert isinstance(added, AddApplication)


def test_an_application_that_was_rejected_is_added_again_at_once_when_the_annotations_change() -> None:
    play = Play()
    play.start(node("n"), space("0"), own("p"))
    play.tell(ApplicationRejected(APP, "too many"))
    assert play.put(space("0")) == [], "they have not"
    added, ask = play.put(space("3"))
    assert isinstance(added, AddApplication)
    assert isinstance(ask, Ask)
    assert added.tags[MOST] == "3"
    assert play.cluster.model.applications[APP].failures == 0
    play.tell(ApplicationAccepted(APP))
    assert play.wait(100) == []


def test_annotations_that_cannot_be_read_are_told_as_a_warning(play: Play) -> None:
    effects = play.all_put(space("many"))
    (event,) = of(effects, RecordEvent)
    assert "not a whole number" in event.note
    (added,) = of(effects, AddApplication)
    assert MOST not in added.tags


def test_an_application_that_completes_before_it_is_told_again_ends_again(play: Play) -> None:
    play.tell(ApplicationUpdated(APP, "Running", ""))
    play.put(space("3"))
    play.gone(own("p"))
    assert play.tell(ApplicationUpdated(APP, "Completed", "")) == [RemoveApplication(APP)]
    assert play.tell(ApplicationAccepted(APP)) == []
    assert APP not in play.cluster.model.applications


def test_an_application_whose_last_pod_goes_before_the_answer_ends_as_ever(play: Play) -> None:
    play.tell(ApplicationUpdated(APP, "Running", ""))
    play.put(space("3"))
    assert RemoveApplication(APP) not in play.gone(own("p"))
    assert play.tell(ApplicationRejected(APP, "too many")) == []
    assert play.tell(ApplicationUpdated(APP, "Completed", "")) == []
    assert APP not in play.cluster.model.applications


def test_an_application_that_is_told_again_goes_on_meanwhile(play: Play) -> None:
    play.put(space("3"))
    play.tell(ApplicationUpdated(APP, "Running", ""))
    assert play.cluster.model.applications[APP].has_started
    play.tell(ApplicationAccepted(APP))
    assert RemoveApplication(APP) not in play.gone(own("p")), "the daemon completes it"


def test_an_application_that_fails_before_it_is_told_again_is_added_again_later(play: Play) -> None:
    play.put(space("3"))
    assert play.tell(ApplicationUpdated(APP, "Failed", "no time")) == [RemoveApplication(APP)]
    assert play.tell(ApplicationAccepted(APP)) == []
    assert of(play.wait(59), AddApplication) == []
    (added, *_) = play.wait(2)
    assert isinstance(added, AddApplication)
    assert added.tags[MOST] == "3"


def test_what_an_earlier_application_of_the_id_does_says_nothing(play: Play) -> None:
    play.gone(own("p"))
    play.put(own("q"))
    play.tell(ApplicationUpdated(APP, "Running", ""))
    assert not play.cluster.model.applications[APP].has_started


def test_a_change_that_the_daemon_has_not_answered_is_in_the_new_report(play: Play) -> None:
    play.put(space("3"))
    play.tell(ReportBegun((APP,), ("n",)), ApplicationAccepted(APP))
    (added,) = play.put(space("4"))
    assert isinstance(added, AddApplication)


def warnings(effects: list[Effect]) -> list[str]:
    """Names of the pods that are told of an annotation."""
    return [event.regarding.name for event in of(effects, RecordEvent) if event.reason == "NamespaceAnnotation"]


def test_a_mistake_that_changes_no_tag_is_told_once() -> None:
    play = Play()
    play.start(node("n"), space(), own("p"))
    play.tell(ApplicationAccepted(APP))
    assert warnings(play.all_put(space("many"))) == ["p"]
    assert warnings(play.all_put(space("many"), own("q"))) == []
    assert warnings(play.all_put(space("more"))) == ["p"]
    assert warnings(play.all_put(space())) == []
    assert warnings(play.all_put(space("more"))) == ["p"]


def test_a_mistake_is_told_again_to_a_pod_that_joins_when_its_event_is_forgotten(play: Play) -> None:
    assert warnings(play.all_put(space("many"))) == ["p"]
    play.tell(ApplicationAccepted(APP))
    play.wait(3_599)
    assert warnings(play.all_put(own("q"))) == []
    play.wait(1)
    assert warnings(play.all_put(own("r"), own("s"))) == ["r"]


def test_pods_of_an_application_that_waits_are_told_of_a_mistake() -> None:
    play = Play()
    play.start(node("n"), space(), own("p"))
    play.tell(ApplicationRejected(APP, "no queue"))
    assert warnings(play.all_put(space("many"))) == ["p"]
