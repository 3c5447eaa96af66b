"""Which queue file a resource manager gets: its `policyGroup` picks it (SEMANTICS C1).

A group G is the file G.yaml in `policy_groups_dir`. The group `queues`, also meant by an empty name, is the file in
`config` if that is set, and at last the file that is shipped, so that a daemon without any setting has queues.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from schedulerd.config.default_file import default_queue_file_text
from schedulerd.config.files import FileUnusable, read_text_file
from schedulerd.config.settings import Settings
from schedulerd.settings.problems import shorten

DEFAULT_GROUP = "queues"
SHIPPED = "shipped queue file"
"""Source of the queue file that is part of the package."""

# No separator and no leading dot: a name that comes over the wire must not leave the directory.
_GROUP_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")


class PolicyGroupUnknown(ValueError):
    """No queue file exists for a policyGroup, or it cannot be read; the message lists the known groups."""


class QueueFileUnreadable(PolicyGroupUnknown):
    """The policyGroup has a queue file, which cannot be read. `reason` follows its name: "cannot be read: ..."."""

    def __init__(self, group: str, source: str, reason: str) -> None:
        super().__init__(f"the queue file {source} of policyGroup {group!r} {reason}")
        self.source = source


@dataclass(frozen=True, slots=True)
class QueueFileText:
    """A queue file that was found but not parsed yet."""

    text: str
    source: str
    """The path, or a name for the file that is shipped; for messages."""


def read_policy_group(settings: Settings, policy_group: str) -> QueueFileText:
    """The text of the queue file of `policy_group`. Raises PolicyGroupUnknown."""
    group = policy_group or DEFAULT_GROUP
    path = _expected(settings, group)
    try:
        is_there = path is not None and (path is settings.config or path.exists())
        known = [] if is_there else _known(settings)
    except OSError as error:
        raise PolicyGroupUnknown(
            f"policy_groups_dir {settings.policy_groups_dir} cannot be read: {error.strerror}"
        ) from error
    if path is not None and is_there:
        return QueueFileText(_read(path, group), str(path))
    if group == DEFAULT_GROUP:
        return QueueFileText(default_queue_file_text(), SHIPPED)
    raise PolicyGroupUnknown(f"policyGroup {group!r} has no queue file; known are {', '.join(known)}")


def queue_file_source(settings: Settings, policy_group: str) -> str:
    """Source of the queue file of `policy_group`, if there is such a file: no disk is asked.

    Raises PolicyGroupUnknown if the settings name no place for it.
    """
    group = policy_group or DEFAULT_GROUP
    path = _expected(settings, group)
    if path is None and group != DEFAULT_GROUP:
        raise PolicyGroupUnknown(f"policyGroup {group!r} has no queue file; known are {DEFAULT_GROUP}")
    return SHIPPED if path is None else str(path)


def queue_file_paths(settings: Settings) -> list[Path]:
    """Paths of the current queue files, including unused policy groups, without the shipped one."""
    own = [] if settings.config is None else [settings.config]
    groups = [] if settings.policy_groups_dir is None else sorted(settings.policy_groups_dir.glob("*.yaml"))
    return [*own, *groups]


def policy_groups_with_file(settings: Settings) -> list[str]:
    """The groups, the default one aside, that have a file now. Raises `OSError` if the directory cannot be read."""
    if settings.policy_groups_dir is None:
        return []
    names = (file.stem for file in settings.policy_groups_dir.iterdir() if file.suffix == ".yaml")
    return sorted(name for name in names if name != DEFAULT_GROUP and _GROUP_NAME.fullmatch(name))


def _expected(settings: Settings, group: str) -> Path | None:
    """Where the settings expect the file of the group. Raises PolicyGroupUnknown for a text that is no name."""
    if not _GROUP_NAME.fullmatch(group):
        raise PolicyGroupUnknown(
            f"policyGroup {shorten(group)!r} is not a name: write 1 to 64 letters, digits and . _ -, no dot first"
        )
    if group == DEFAULT_GROUP and settings.config is not None:
        return settings.config
    return None if settings.policy_groups_dir is None else settings.policy_groups_dir / f"{group}.yaml"


def _known(settings: Settings) -> list[str]:
    files = [] if settings.policy_groups_dir is None else settings.policy_groups_dir.glob("*.yaml")
    return sorted({DEFAULT_GROUP, *(file.stem for file in files)})


def _read(path: Path, group: str) -> str:
    try:
        return read_text_file(path)
    except FileUnusable as error:
        raise QueueFileUnreadable(group, str(path), str(error)) from error
