"""The settings of the daemon, as one frozen model with their defaults, their bounds and their help.

The sources of the values are the business of `settings_layers`: a setting means the same in each of them.
"""

from __future__ import annotations

from pydantic import ConfigDict, DirectoryPath, Field

from schedulerd.config.limit_settings import LimitSettings
from schedulerd.config.server_settings import ServerSettings
from schedulerd.config.setting_types import Seconds
from schedulerd.config.time_settings import TimeSettings


class Settings(TimeSettings, LimitSettings, ServerSettings):
    """All that can be set. Descriptions are the help of the flags; a name's last word is the unit.

    The flags are listed in this order: those of `ServerSettings`, `LimitSettings`, `TimeSettings`, then those here.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    event_tracking: bool = Field(default=True, description="Record events, also while no client reads them.")
    event_ring_max: int = Field(
        default=100_000,
        ge=1_000,
        le=1_000_000,
        description="Maximum number of events that are kept to be listed; the oldest are dropped. Each takes "
        "about 200 bytes of memory.",
    )
    journal: DirectoryPath | None = Field(
        default=None,
        description="Directory in which each start writes a new journal of all commands, for `schedulerd replay`. "
        "Without it, no journal is written.",
    )
    journal_file_max_bytes: int = Field(
        default=256 * 1024 * 1024,
        ge=4 * 1024 * 1024,
        le=2**40,
        description="Size in bytes at which the journal continues in its next file.",
    )
    journal_max_bytes: int = Field(
        default=16 * 1024 * 1024 * 1024,
        ge=4 * 1024 * 1024,
        le=2**50,
        description="Size in bytes of all journals in the directory at which the journal ends; scheduling continues. "
        "No file is removed: a replay needs all files of a journal.",
    )
    stop_at_input_end: bool = Field(
        default=False,
        description="Shut down when standard input is closed, as after SIGTERM. For a daemon that must not "
        "outlive the process that started it.",
    )
    drain_timeout_s: Seconds = Field(
        default=10,
        description="Seconds that a shutdown waits for streams to end. The whole shutdown takes at most 15 s more.",
    )
