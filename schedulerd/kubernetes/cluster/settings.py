"""What can be chosen about the cluster; everything has a default."""

from __future__ import annotations

from dataclasses import dataclass

from schedulerd.kubernetes.metadata.application_ids import ApplicationIds
from schedulerd.kubernetes.metadata.gangs import MEMBERS_MAX, PlaceholderKind

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    scheduler_names: frozenset[str] = frozenset({"schedulerd"})
    """Pods with one of these as `spec.schedulerName` are scheduled; all others only use room."""
    one_application_per_pod: bool = False
    """Pods that name no application get one each, not one for their namespace."""
    application_ids: ApplicationIds = ApplicationIds.NAMESPACED
    """Whether pods of two namespaces that name the same id are in two applications."""
    shares_applications: bool = False
    """A pod may join an application of another namespace: `application_ids` is BARE then."""
    shares_users: bool = False
    """A pod of another user may join an application by its id, on the limits of the application's user."""
    daemon_set_namespaces: frozenset[str] = frozenset({"kube-system"})
    """Pods of DaemonSets in all other namespaces preempt only pods of strictly lower priority."""
    respects_budgets: bool = True
    """Sets of victims above what a PodDisruptionBudget allows are refused."""
    has_disruption_condition: bool = True
    """Preempted pods get the condition DisruptionTarget first."""
    avoided_ns: int = 60 * SECOND_NS
    """How long a node is avoided at most for a pod that could not be bound to it."""
    volume_bind_timeout_ns: int = 600 * SECOND_NS
    """How long a pod that has its node waits for the volumes of its claims."""
    placeholders: PlaceholderKind = PlaceholderKind.PODS
    """Of gangs that are declared by annotations and do not say which."""
    placeholder_image: str = "registry.k8s.io/pause:3.10"
    gang_members_max: int = MEMBERS_MAX
    """Of the task groups of one application together; the task groups of a gang with more cannot be used."""
    placeholder_user: int | None = None
    """User and group id of placeholder pods; None: those of the image."""
    gang_timeout_ns: int = 900 * SECOND_NS
    """How long placeholders may be refused by the API server, for gangs without a timeout of their own."""
    reason_writes_per_s: float = 100.0
    """Conditions and events that say why pods wait, beyond a burst of 1,000."""
    classes_max: int = 64
    """Classes that nodes have attributes for; pods of all others are asked about."""

    def __post_init__(self) -> None:
        if self.shares_applications:
            object.__setattr__(self, "application_ids", ApplicationIds.BARE)
