"""The queue file: YAML text in, the core's specs and a list of warnings out, or all that is wrong with it at once.

The same function reads the daemon's own file, the `config` of a registration and what `schedulerd validate` is given,
so that what is valid in one place is valid in all.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from schedulerd.config.hierarchy import (
    check_max_applications,
    check_resources,
    check_structure,
    check_template,
    top_queue,
    walk,
)
from schedulerd.config.limits import check_limits
from schedulerd.config.models import QueueConfiguration, ResolverType
from schedulerd.config.placement import check_rules
from schedulerd.config.properties import check_properties
from schedulerd.config.specs import partition_name, partition_spec
from schedulerd.config.unenforced import warn_nobody, warn_partition, warn_queues
from schedulerd.config.validation import validate
from schedulerd.core.language.specs import PartitionSpec
from schedulerd.settings.document import read_document
from schedulerd.settings.problems import PROBLEMS_MAX, Finding, Path, Problem

_CHECKSUM_LINE = re.compile(r"checksum: [0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True)
class QueueFile:
    """A queue file that is valid."""

    partitions: tuple[PartitionSpec, ...]
    """In the order of the file; their names differ in more than case."""
    warnings: tuple[Problem, ...] = field(default=())
    """Entries without effect, or with an effect that is probably not intended; in the order of the lines."""
    checksum: str = ""
    """SHA-256 in upper-case hexadecimal of the text without its own `checksum: ...`: equal means nothing changed."""
    os_group_partitions: frozenset[str] = frozenset()
    """Names of the partitions in which users without groups get their groups from the operating system."""


class QueueFileInvalid(ValueError):
    """A queue file that cannot be used. The text lists every problem on a line of its own."""

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        self.source = source
        """Where the text came from, as given by the caller."""
        self.problems = problems
        """All problems in the order of the lines: at least one, and at most `PROBLEMS_MAX`."""
        self.headline = f"{source}: {len(problems)} problem{'s' if len(problems) > 1 else ''}"
        if len(problems) == PROBLEMS_MAX:
            self.headline += ", the most that are looked for"
        """Without the problems themselves."""
        super().__init__("\n  ".join([self.headline, *map(str, problems)]))


def load_queue_file(text: str, source: str = "queue file") -> QueueFile:
    """The specs of a queue file, an empty text being a file without partitions.

    `source` names the text in errors. Raises QueueFileInvalid with every problem of the text. Takes up to a second for
    each 100 kB of text, so a server reads other people's files outside its event loop.
    """
    document = read_document(text)
    if document.problems and document.data is None:
        raise QueueFileInvalid(source, document.problems)
    configuration, findings = validate(document.data)
    findings += islice(_without_consequences(_check(configuration), findings), PROBLEMS_MAX)
    problems = (*document.problems, *(document.problem(*finding) for finding in findings))
    if problems:
        raise QueueFileInvalid(source, _by_line(problems)[:PROBLEMS_MAX])
    checksum = hashlib.sha256(_CHECKSUM_LINE.sub("", text).encode()).hexdigest().upper()
    return QueueFile(
        partitions=tuple(map(partition_spec, configuration.partitions)),
        warnings=_by_line(
            document.problem(*finding) for finding in islice(_warn(configuration, checksum), PROBLEMS_MAX)
        ),
        checksum=checksum,
        os_group_partitions=frozenset(
            partition_name(partition)
            for partition in configuration.partitions
            if partition.usergroupresolver.type is ResolverType.OS
        ),
    )


def _by_line(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(problems, key=lambda problem: problem.line or 0))


def _without_consequences(findings: Iterable[Finding], known: list[Finding]) -> Iterator[Finding]:
    """The findings that do not stem from a value that was found wrong before and is therefore missing."""
    wrong = {path for path, _ in known}
    above_wrong = {path[:length] for path in wrong for length in range(len(path))}
    for path, message in findings:
        below_wrong = any(path[:length] in wrong for length in range(len(path) + 1))
        if not below_wrong and path not in above_wrong:
            yield path, message


def _check(configuration: QueueConfiguration) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for index, partition in enumerate(configuration.partitions):
        at: Path = ("partitions", index)
        name = partition_name(partition)
        if (other := first.setdefault(name.lower(), index)) != index:
            yield (*at, "name"), f'partitions[{other}] is named "{name}" too; names must differ in more than case'
        yield from check_structure(partition, at)
        root, root_at = top_queue(partition, at)
        for queue, queue_at in walk(root, root_at):
            yield from check_properties(queue.properties, (*queue_at, "properties"))
            yield from check_properties(queue.childtemplate.properties, (*queue_at, "childtemplate", "properties"))
            yield from check_template(queue, queue_at)
        yield from check_resources(root, root_at)
        yield from check_max_applications(root, root_at)
        yield from check_limits(partition, at, root, root_at)
        yield from check_rules(partition, root, at)


def _warn(configuration: QueueConfiguration, checksum: str) -> Iterator[Finding]:
    if not configuration.partitions:
        yield (), "there are no partitions, so nothing can be scheduled"
    if configuration.checksum and configuration.checksum.upper() != checksum:
        yield ("checksum",), f"not the checksum of this text, which is {checksum}; remove or correct it"
    for index, partition in enumerate(configuration.partitions):
        at: Path = ("partitions", index)
        yield from warn_partition(partition, at)
        yield from warn_queues(*top_queue(partition, at))
        yield from warn_nobody(*top_queue(partition, at))
