"""The queue files in force: of each policy group, the last valid text that this daemon has read, and what is wrong now.

A file may be broken, removed or unreadable at any moment, also while another replica takes over. A registration gets
the text in force then, so a mistake in a file costs no registration. The files whose present content cannot be used are
named to the operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedulerd.config import (
    DEFAULT_GROUP,
    SHIPPED,
    PolicyGroupUnknown,
    QueueFileInvalid,
    QueueFileText,
    QueueFileUnreadable,
)
from schedulerd.core.language.specs import ConfigurationText, PartitionSpec
from schedulerd.settings.problems import Problem

GROUPS_MAX = 1_000
"""Maximum number of policy groups whose files are read before a resource manager wants them, and of broken files
without a valid text that are remembered."""


@dataclass(frozen=True, slots=True)
class LoadedQueueFile:
    """A valid queue file: its partitions, its text and its warnings."""

    partitions: tuple[PartitionSpec, ...]
    configuration: ConfigurationText
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """A queue file whose present content cannot be used."""

    policy_group: str
    source: str
    """Path of the file; its policy group, if no path is known."""
    problem: str
    """The first problem as one sentence. It may quote the file."""
    has_text_in_force: bool
    """Whether registrations get an earlier valid text; if not, they are refused."""
    problem_without_text: str
    """The first problem without anything of the file, for answers that everybody gets."""

    def sentence(self, problem: str) -> str:
        """What is wrong and what follows from it; `problem` is one of both."""
        what = f"the queue file of policyGroup {self.policy_group!r} cannot be used: {problem}"
        if self.has_text_in_force:
            return (
                f"{what}; the last valid text stays in force here, but a replica that starts now has none and could "
                "not replace this one"
            )
        return f"{what}; no valid text of it has been read"


class FilesInForce:
    """All queue files that were read, by policy group."""

    def __init__(self) -> None:
        self._valid: dict[str, LoadedQueueFile] = {}
        self._broken: dict[str, BrokenFile] = {}

    def of(self, group: str) -> LoadedQueueFile | None:
        """The last valid text of the group; None if there was none."""
        return self._valid.get(group)

    @property
    def broken(self) -> list[BrokenFile]:
        """The files that cannot be used at present, by policy group."""
        return [one for _, one in sorted(self._broken.items())]

    @property
    def validity(self) -> Mapping[str, bool]:
        """By policy group, whether the present file is valid."""
        return {group: group not in self._broken for group in sorted({*self._valid, *self._broken})}

    def same(self, group: str, found: QueueFileText) -> LoadedQueueFile | None:
        """The text in force, if that is what was found: it need not be parsed again."""
        known = self._valid.get(group)
        is_same = known is not None and (known.configuration.text, known.configuration.source) == (
            found.text,
            found.source,
        )
        return known if is_same else None

    def check_not_removed(self, group: str, found: QueueFileText) -> None:
        """The default group without a file means the shipped file, but not if it had a file before."""
        known = self._valid.get(group)
        if known is not None and found.source == SHIPPED and known.configuration.source != SHIPPED:
            raise QueueFileUnreadable(group, known.configuration.source, "is not there any longer")

    def read(self, group: str, loaded: LoadedQueueFile) -> None:
        """A valid file was read."""
        self._valid[group] = loaded
        self._broken.pop(group, None)

    def failed(self, group: str, error: PolicyGroupUnknown | QueueFileInvalid) -> None:
        """The file could not be used. A group that has never had a file is no broken file but an unknown name.

        While a disk does not answer, names that clients make up cannot be told from others: so many are remembered, up
        to the first read that tells.
        """
        known = self._valid.get(group)
        has_file = isinstance(error, QueueFileInvalid | QueueFileUnreadable)
        if not has_file and known is None and group != DEFAULT_GROUP:
            self._broken.pop(group, None)
            return
        if known is None and group not in {*self._broken, DEFAULT_GROUP} and len(self._broken) >= GROUPS_MAX:
            return
        if isinstance(error, QueueFileInvalid):
            first = error.problems[0]
            source, problem, shown = error.source, str(first), first.without_text()
            if len(error.problems) > 1:
                more = f" (and {len(error.problems) - 1} more)"
                problem, shown = problem + more, shown + more
        else:
            source = group if known is None else known.configuration.source
            if isinstance(error, QueueFileUnreadable):
                source = error.source
            problem = shown = str(error)
        self._broken[group] = BrokenFile(group, source, problem, known is not None, shown)
