"""Configuration that operators write, read once and checked: the queue file and the daemon's settings.

YAML text -> pydantic models -> the core's specs. Other packages see no YAML keys and no unit suffixes, and every
default is filled in.
"""

from schedulerd.config.files import FileUnusable, read_file
from schedulerd.config.identities import DEFAULT_NAME_KINDS, EVERYTHING, NameKind, names_meant
from schedulerd.config.patterns import matches
from schedulerd.config.policy_groups import (
    DEFAULT_GROUP,
    SHIPPED,
    PolicyGroupUnknown,
    QueueFileText,
    QueueFileUnreadable,
    policy_groups_with_file,
    queue_file_paths,
    queue_file_source,
    read_policy_group,
)
from schedulerd.config.queue_file import QueueFile, QueueFileInvalid, load_queue_file
from schedulerd.config.setting_types import HttpAccess
from schedulerd.config.settings import Settings
from schedulerd.config.settings_layers import ENVIRONMENT_PREFIX, SettingsInvalid, load_settings
from schedulerd.config.shown import ShownConfiguration, show_queue_file
from schedulerd.settings.problems import PROBLEMS_MAX, Problem, shorten

__all__ = [
    "DEFAULT_GROUP",
    "DEFAULT_NAME_KINDS",
    "ENVIRONMENT_PREFIX",
    "EVERYTHING",
    "PROBLEMS_MAX",
    "SHIPPED",
    "FileUnusable",
    "HttpAccess",
    "NameKind",
    "PolicyGroupUnknown",
    "Problem",
    "QueueFile",
    "QueueFileInvalid",
    "QueueFileText",
    "QueueFileUnreadable",
    "Settings",
    "SettingsInvalid",
    "ShownConfiguration",
    "load_queue_file",
    "load_settings",
    "matches",
    "names_meant",
    "policy_groups_with_file",
    "queue_file_paths",
    "queue_file_source",
    "read_file",
    "read_policy_group",
    "shorten",
    "show_queue_file",
]
