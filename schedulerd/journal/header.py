"""What stands at the beginning of every file of a journal of the daemon."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from schedulerd import __version__
from schedulerd.core.language.specs import Timeouts
from schedulerd.core.scheduler import Scheduler
from schedulerd.ids import uuid_source
from schedulerd.instant import Instant
from schedulerd.journal.schema import Schema, schema
from schedulerd.journal_files.kind import Kind

FORMAT = 5
"""Of the files; to be raised whenever an older reader would misunderstand them."""

KIND = Kind(FORMAT, "commands_before", proved="commands", has_digest_after_failure=False)


@dataclass(frozen=True, slots=True)
class Header:
    """All that has to be known to play a journal again."""

    timeouts: Timeouts
    placements_max: int
    """Maximum allocations per cycle in the daemon's settings; every cycle in the journal has its own."""
    uuid_seed: int
    """Of the allocation UUIDs (`schedulerd.ids.uuid_source`)."""
    instance: str
    """Id of this start of the daemon."""
    started: Instant
    """When the journal was begun."""
    version: str = __version__
    """Version of the schedulerd that wrote the file."""
    python: str = field(default_factory=platform.python_version)
    names: Schema = field(default_factory=schema)

    def scheduler(self, matches: Callable[[str, str], bool]) -> Scheduler:
        """A scheduler as the daemon's was when it started: empty, with the same timeouts and the same UUIDs to come.

        `matches` is what filters of placement rules match with, in the daemon `schedulerd.config.matches`. It is a
        parameter because a journal can be read without third-party packages.
        """
        return Scheduler(self.timeouts, uuid_source(self.uuid_seed), matches)

    def to_values(self) -> dict[str, Any]:
        """As plain values for JSON. The seed is text: 128 bits are more than some readers of JSON keep of a number."""
        return {**asdict(self), "uuid_seed": f"{self.uuid_seed:032x}"}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """The other way round. Raises `AttributeError`, `KeyError`, `TypeError` or `ValueError`."""
        rest = dict(values)
        timeouts = Timeouts(**rest.pop("timeouts"))
        started = Instant(*map(int, rest.pop("started")))
        return cls(timeouts=timeouts, started=started, uuid_seed=int(rest.pop("uuid_seed"), 16), **rest)
