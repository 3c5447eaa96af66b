"""What resource managers wanted, told apart from what they got: the part of a history that another scheduler would see.

A pod is an ask and a time that it runs, whenever and wherever it is placed. What an application says while it has
something to do comes at a fixed time after it began to; what it says when all of that is over (its next wave, its
removal) comes as long after the end as it did. So a slower world gets the same work later, and not another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from schedulerd.core.language.commands import Command, RegisterResourceManager, TerminationType, UpdateConfiguration
from schedulerd.core.language.specs import ConfigurationText, PartitionSpec
from schedulerd.core.scheduler import Scheduler
from schedulerd.replay.names import ApplicationName


class Origin(NamedTuple):
    """Where something stands in the history: what was first there is first in any run, of all that is due at a time."""

    number: int
    """Of the command."""
    position: int = 0
    """Among what the command did, from 1; 0 is before all of that."""


@dataclass(slots=True)
class Run:
    """How long one allocation was there."""

    origin: Origin
    """What ended it, or placed it as long as nothing has."""
    run_ns: int | None = None
    """None if the resource manager did not end it, or it had not ended at the end of the history."""
    termination: TerminationType | None = None
    """The termination type that the resource manager confirmed, if the scheduler requested the release."""
    confirmed_ns: int = 0
    """How long that took."""


class Send(NamedTuple):
    """A message of a resource manager about an application."""

    after_ns: int
    """The beginning of its chapter."""
    origin: Origin
    command: Command


@dataclass(slots=True)
class RunSegment:
    """Messages about an application in one period of activity, until nothing is pending or running."""

    pause_ns: int
    """Since the end of the chapter before; of the first one, 0."""
    sends: list[Send] = field(default_factory=list)
    """In order; never empty."""


@dataclass(slots=True, eq=False)
class ApplicationDemand:
    """All messages about an application, up to the next registration of its resource manager."""

    name: ApplicationName
    begins_ns: int
    """When its first chapter begins, in monotonic time."""
    chapters: list[RunSegment] = field(default_factory=list)
    runs: dict[str, list[Run]] = field(default_factory=dict)
    """By allocation key, in the order in which they were placed."""
    usual_run_ns: int | None = None
    """Assumed run time of an allocation that was never placed in the history; None: until the end."""

    def run(self, key: str, nth: int, *, placeholder: bool) -> Run:
        """The run of the `nth` allocation of a key, from 0, or an assumed one if there was none."""
        runs = self.runs.get(key, [])
        if nth < len(runs):
            return runs[nth]
        return Run(Origin(0), None if placeholder else self.usual_run_ns)


class Question(NamedTuple):
    """What a resource manager was asked on its callback stream."""

    application: ApplicationName
    allocation_key: str
    node_id: str
    victim_keys: tuple[str, ...] = ()
    """Keys of the victims in the question; empty if the question is about the node only."""


class Answer(NamedTuple):
    """The resource manager's answer to a question."""

    after_ns: int
    """Time from question to answer."""
    refusal: str = ""
    last_victim: int = 0
    """The index of `PredicateResult`."""


@dataclass(slots=True)
class Demand:
    """A history without its outcome."""

    commands: list[tuple[int, int, Command]] = field(default_factory=list)
    """(time, number, command) of what belongs to no application: resource managers, nodes, queue files."""
    applications: list[ApplicationDemand] = field(default_factory=list)
    """In the order in which they began."""
    answers: dict[Question, Answer | None] = field(default_factory=dict)
    """The last one to each question; None if there was none in time."""
    usual_answer_ns: int = 0
    """How long answers took, in the middle."""
    usual_confirmation_ns: dict[TerminationType, int] = field(default_factory=dict)
    """Median time from a requested release to its confirmation, by termination type."""
    placements_max: int = 1
    """Of one cycle."""
    end_ns: int = 0
    """When the last command came."""

    def configurations(self) -> Mapping[str, ConfigurationText]:
        """The queue file that each resource manager had last, by its rmID."""
        return {
            command.rm_id: command.configuration
            for _, _, command in self.commands
            if isinstance(command, RegisterResourceManager | UpdateConfiguration)
        }

    def under(
        self, rm_ids: Iterable[str], partitions: tuple[PartitionSpec, ...], configuration: ConfigurationText
    ) -> Demand:
        """The same demand; these resource managers have one other queue file, from the beginning to the end."""
        chosen = frozenset(rm_ids)
        commands: list[tuple[int, int, Command]] = []
        for now_ns, number, command in self.commands:
            match command:
                case UpdateConfiguration() if command.rm_id in chosen:
                    continue
                case RegisterResourceManager() if command.rm_id in chosen:
                    command = replace(command, partitions=partitions, configuration=configuration)
            commands.append((now_ns, number, command))
        return replace(self, commands=commands)


def is_idle(scheduler: Scheduler, name: ApplicationName) -> bool:
    """Whether an application has nothing to do now: nothing pending and nothing running but placeholders."""
    rm = scheduler.cluster.resource_managers.get(name.rm_id)
    partition = rm.partitions.get(name.partition) if rm is not None else None
    application = partition.applications.get(name.application_id) if partition is not None else None
    return application is None or application.is_idle
