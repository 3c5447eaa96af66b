"""Settings of `schedulerd kubernetes`: what does not fit together is refused, with what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.shim.settings import KubernetesSettings
from schedulerd.settings.layers import SettingsInvalid, load_layers
from tests.loops import each_row


def loaded(**flags: Any) -> KubernetesSettings:
    return load_layers(KubernetesSettings, "SCHEDULERD_KUBERNETES_", flags, {})


@each_row(
    ("flags", "why"),
    [
        ({"lease_duration_s": 5, "lease_renew_deadline_s": 5.0}, "must be less than lease_duration_s = 5"),
        ({"lease_renew_deadline_s": 6.0, "lease_retry_s": 5.0}, "must be more than 1.2 times lease_retry_s = 5"),
        ({"scheduler_name": ("n" * 254,)}, "a scheduler name has 1 to 253 characters"),
        ({"scheduler_name": ("",)}, "a scheduler name has 1 to 253 characters"),
    ],
)
def test_what_cannot_be_right_is_refused(flags: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        loaded(**flags)
    assert why in str(caught.value)


def test_groups_of_pods_are_watched_if_they_are_wanted() -> None:
    assert loaded().gang_sources() == {GangSource.COSCHEDULING}
    assert loaded(pod_groups=False).gang_sources() == set()
    assert loaded(pod_groups=False, scheduling_groups=True).gang_sources() == {GangSource.KUBERNETES}


def test_budgets_are_respected_unless_it_says_otherwise() -> None:
    assert loaded().cluster(has_disruption_condition=True).respects_budgets
    assert not loaded(disruption_budgets="ignore").cluster(has_disruption_condition=True).respects_budgets
