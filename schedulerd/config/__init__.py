"""What operators write, read once and checked: the queue file and the daemon's settings.

YAML text -> pydantic models -> the core's specs. Nothing outside this package sees a YAML key, a unit suffix or a
default that was not spelled out.
"""

from schedulerd.config.policy_groups import PolicyGroupUnknown, QueueFileText, read_policy_group
from schedulerd.config.problems import Problem
from schedulerd.config.queue_file import QueueFile, QueueFileInvalid, load_queue_file
from schedulerd.config.settings import Settings, SettingsInvalid, load_settings, split_address

__all__ = [
    "PolicyGroupUnknown",
    "Problem",
    "QueueFile",
    "QueueFileInvalid",
    "QueueFileText",
    "Settings",
    "SettingsInvalid",
    "load_queue_file",
    "load_settings",
    "read_policy_group",
    "split_address",
]
