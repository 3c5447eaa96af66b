"""Builders that give a running scheduler another queue file."""

from __future__ import annotations

from schedulerd.core.language.commands import UpdateConfiguration
from schedulerd.core.language.facts.configuration import ConfigurationRejected
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.specs import QueueSpec
from tests.unit.core.builders import Conversation, a_partition_spec, of


def reload(talk: Conversation, root: QueueSpec) -> list[Fact]:
    """From now on the default partition has these queues; the file is not refused."""
    facts = talk.step(UpdateConfiguration(talk.rm_id, (a_partition_spec(root),)))
    assert of(ConfigurationRejected, facts) == []
    return facts
