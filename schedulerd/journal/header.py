"""What stands at the beginning of every file of a journal: all that has to be known to play it again."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from schedulerd import __version__
from schedulerd.core.language.specs import Timeouts
from schedulerd.core.scheduler import Scheduler
from schedulerd.ids import uuid_source
from schedulerd.instant import Instant
from schedulerd.journal.schema import Schema, schema

FORMAT = 4
"""Of the files; to be raised whenever an older reader would misunderstand them."""

_SHOWN_MAX = 40
"""Characters of a value of an unreadable header that a message shows."""


class HeaderUnreadable(ValueError):
    """A header that this version cannot read; the message says why."""


@dataclass(frozen=True, slots=True)
class Header:
    """Header of one file. Only `file` and `commands_before` differ between the files of a journal."""

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
    file: int = 1
    """The number of the file, from 1."""
    commands_before: int = 0
    """Number of commands in the earlier files."""

    def scheduler(self, matches: Callable[[str, str], bool]) -> Scheduler:
        """A scheduler as the daemon's was when it started: empty, with the same timeouts and the same UUIDs to come.

        `matches` is what filters of placement rules match with, in the daemon `schedulerd.config.matches`. It is a
        parameter because a journal can be read without third-party packages.
        """
        return Scheduler(self.timeouts, uuid_source(self.uuid_seed), matches)

    def to_values(self) -> dict[str, Any]:
        """As plain values for JSON. The seed is text: 128 bits are more than some readers of JSON keep of a number."""
        return {"format": FORMAT, **asdict(self), "uuid_seed": f"{self.uuid_seed:032x}"}

    def of_next_file(self, entries: int) -> Self:
        """The header of the file after this one; so many commands are in the files before it."""
        return replace(self, file=self.file + 1, commands_before=entries)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """The other way round. Raises `HeaderUnreadable`."""
        rest = dict(values)
        found = rest.pop("format", None)
        if found != FORMAT:
            raise HeaderUnreadable(_other_format(found, rest.get("version")))
        try:
            timeouts = Timeouts(**rest.pop("timeouts"))
            started = Instant(*map(int, rest.pop("started")))
            return cls(timeouts=timeouts, started=started, uuid_seed=int(rest.pop("uuid_seed"), 16), **rest)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise HeaderUnreadable(f"its header is not understood: {error}") from error


def _other_format(found: object, writer: object) -> str:
    """Why a journal of that format, written by that version, cannot be read; both come from the file."""
    return (
        f"its format is {str(found)[:_SHOWN_MAX]}, written by schedulerd {str(writer)[:_SHOWN_MAX]}; "
        f"this is schedulerd {__version__}, which reads format {FORMAT} only: "
        "read the journal with the version that wrote it"
    )
