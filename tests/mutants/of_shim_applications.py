"""Mutants of the Kubernetes shim: whose an application is, and whether an earlier run still has its id."""

from __future__ import annotations

from schedulerd.kubernetes.cluster import joining
from schedulerd.kubernetes.cluster.gangs import door, earlier_run
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.shim.application_ids import to_daemon
from tests.kubernetes.cluster import test_application_ids, test_asking, test_earlier_run
from tests.mutants.changes import By, Replaced, gives, nothing
from tests.mutants.finders import TestsOf
from tests.mutants.mutant import Mutant
from tests.mutants.rules import Rule

IDS = TestsOf(test_application_ids)
ASKING = TestsOf(test_asking)
EARLIER_RUNS = TestsOf(test_earlier_run)


def without_namespace(original: By, application: ApplicationId) -> str:
    return str(original(application._replace(namespace="")))


MUTANTS = (
    Mutant(
        "the daemon is told the id of an application without its namespace",
        Rule.SHIM_IDS,
        Replaced(to_daemon, without_namespace),
        (IDS,),
    ),
    Mutant(
        "where ids are bare, an id that is made for a namespace can be taken from another one",
        Rule.SHIM_IDS,
        Replaced(joining.foreign_id, gives(None)),
        (ASKING,),
    ),
    Mutant(
        "pods of a gang join the pods of an earlier run that are being deleted",
        Rule.SHIM_GANGS,
        Replaced(earlier_run._waits_for_end, gives(False)),
        (EARLIER_RUNS,),
    ),
    Mutant(
        "pods of a gang join a run with other task groups",
        Rule.SHIM_GANGS,
        Replaced(earlier_run._declares_others, gives(False)),
        (EARLIER_RUNS,),
    ),
    Mutant(
        "a gang that has run goes on with the pods of the next run",
        Rule.SHIM_GANGS,
        Replaced(earlier_run.is_over, gives(False)),
        (EARLIER_RUNS,),
    ),
    Mutant(
        "pods that wait for the end of a run are not looked at when it has ended",
        Rule.SHIM_GANGS,
        Replaced(door.left, nothing),
        (EARLIER_RUNS,),
    ),
)
