"""Mutants of the Kubernetes shim: whose an application is."""

from __future__ import annotations

from schedulerd.kubernetes.cluster import joining
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.shim.application_ids import to_daemon
from tests.kubernetes.cluster import test_application_ids, test_asking
from tests.mutants.changes import By, Replaced, gives
from tests.mutants.finders import TestsOf
from tests.mutants.mutant import Mutant
from tests.mutants.rules import Rule

IDS = TestsOf(test_application_ids)
ASKING = TestsOf(test_asking)


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
)
