"""The daemon's settings from flags, the environment, a file and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from schedulerd.config.settings import Settings
from schedulerd.settings.layers import SettingsInvalid, load_layers

ENVIRONMENT_PREFIX = "SCHEDULERD_"
OTHER_PREFIXES = (
    "SCHEDULERD_ADMISSION_",
    "SCHEDULERD_KUBERNETES_",
    "SCHEDULERD_CONTEXTS",
    "SCHEDULERD_SERVER",
    "SCHEDULERD_TOKEN_FILE",
)
"""Of settings of other commands, and of the terminal."""


def load_settings(flags: Mapping[str, object], environ: Mapping[str, str], file: Path | None = None) -> Settings:
    """The settings of a flag, else of the environment variable SCHEDULERD_NAME, else of the file, else the default.

    `flags` has the names of the fields; None is a flag that was not given. Raises SettingsInvalid with all problems.
    """
    return load_layers(Settings, ENVIRONMENT_PREFIX, flags, environ, file, OTHER_PREFIXES)


__all__ = ["ENVIRONMENT_PREFIX", "SettingsInvalid", "load_settings"]
