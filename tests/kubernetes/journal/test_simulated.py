"""Whatever happens to a simulated cluster, a journal of it is played to the same effects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.journal.codec import Entry, from_values, played, result_text, to_text
from schedulerd.kubernetes.journal.recorded_cluster import RecordedCluster
from tests.kubernetes.cluster import core_world, gang_world, toy_world, volume_world
from tests.kubernetes.cluster.test_core_simulation import play, play_gangs
from tests.kubernetes.cluster.test_volume_simulation import play as play_volumes
from tests.loops import each_seed

WORLDS = (toy_world, gang_world, core_world, volume_world)


class Journals:
    """In memory, of all clusters that are made: a world kills its shims."""

    def __init__(self) -> None:
        self.entries: list[list[Entry]] = []

    def cluster(self, settings: ClusterSettings | None = None) -> Cluster:
        self.entries.append([])
        journal: Any = _Journal(self.entries[-1])
        return RecordedCluster(settings or ClusterSettings(), journal)


class _Journal:
    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    def put(self, entry: Entry) -> None:
        self._entries.append(entry)


@pytest.fixture
def journals(monkeypatch: pytest.MonkeyPatch) -> Journals:
    made = Journals()
    for world in WORLDS:
        if hasattr(world, "Cluster"):
            monkeypatch.setattr(world, "Cluster", made.cluster)
    return made


@each_seed(range(5))
@pytest.mark.parametrize("history", [play, play_gangs, play_volumes], ids=["pods", "gangs", "volumes"])
def test_a_journal_of_a_simulated_cluster(history: Any, seed: int, journals: Journals) -> None:
    journals.entries.clear()
    history(seed)
    assert sum(map(len, journals.entries)) > 100
    for entries in journals.entries:
        cluster = Cluster(ClusterSettings())
        for entry in entries:
            again = played(from_values(msgspec.json.decode(to_text(entry))), cluster)
            assert result_text(again) == result_text(entry)
