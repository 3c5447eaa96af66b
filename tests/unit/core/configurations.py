"""Builders that give a running scheduler another queue file."""

from __future__ import annotations

from schedulerd.core.commands import UpdateConfiguration
from schedulerd.core.configuration.facts import ConfigurationRejected
from schedulerd.core.facts import Fact
from schedulerd.core.specs import QueueSpec
from tests.unit.core.builders import Conversation, a_partition_spec, of


def reload(talk: Conversation, root: QueueSpec) -> list[Fact]:
    """From now on the default partition has these queues; the file is not refused."""
    facts = talk.step(UpdateConfiguration(talk.rm_id, (a_partition_spec(root),)))
    assert of(ConfigurationRejected, facts) == []
    return facts
