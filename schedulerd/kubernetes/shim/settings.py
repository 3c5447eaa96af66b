"""The settings of `schedulerd kubernetes`, as one frozen model with their defaults, their bounds and their help."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    DirectoryPath,
    Field,
    FilePath,
    model_validator,
)

from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.cluster.settings import SECOND_NS, ClusterSettings
from schedulerd.kubernetes.election import LeaseTimes
from schedulerd.kubernetes.metadata.application_ids import ApplicationIds
from schedulerd.kubernetes.metadata.gangs import MEMBERS_MAX, PlaceholderKind
from schedulerd.settings.values import Address, LogFormat, LogFormatName, LogLevel, LogLevelName, Target, listed, lower

ENVIRONMENT_PREFIX = "SCHEDULERD_KUBERNETES_"


class BudgetPolicy(StrEnum):
    """Whether preemption goes by PodDisruptionBudgets."""

    RESPECT = "respect"
    IGNORE = "ignore"


def _scheduler_name(name: str) -> str:
    if not name or len(name) > 253:
        raise ValueError("a scheduler name has 1 to 253 characters")
    return name


SchedulerName = Annotated[str, AfterValidator(_scheduler_name)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class KubernetesSettings(BaseModel):
    """All that can be set. Descriptions are the help of the flags; a name's last word is the unit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    daemon: Target = Field(
        default="localhost:3333",
        description="HOST:PORT of the daemon, or unix:/PATH of its socket file (its --grpc-bind).",
    )
    http_bind: Address = Field(
        default="0.0.0.0:9081",
        description="HOST:PORT of the HTTP server (metrics and probes); port 0 takes any free port.",
    )
    kubeconfig: FilePath | None = Field(
        default=None,
        description="Kubeconfig file with the way to the API server. Without it: the files of the variable KUBECONFIG, "
        "the service account of the pod, or ~/.kube/config.",
    )
    context: str | None = Field(default=None, description="Context of the kubeconfig. Without it, its current one.")
    scheduler_name: Annotated[tuple[SchedulerName, ...], BeforeValidator(listed), Field(min_length=1)] = Field(
        default=("schedulerd",),
        description="Pods with this spec.schedulerName are scheduled; several names are separated by commas. Pods "
        "with other names only use room.",
    )
    rm_id: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        default="kubernetes", description="rmID to register with at the daemon: one per cluster."
    )
    policy_group: str = Field(
        default="", description="policyGroup to register with: selects the queue file of the daemon."
    )
    one_application_per_pod: bool = Field(
        default=False,
        description="Pods that name no application are applications of their own. Otherwise all such pods of a "
        "namespace are one application.",
    )
    application_ids: Annotated[ApplicationIds, BeforeValidator(lower)] = Field(
        default=ApplicationIds.NAMESPACED,
        description="namespaced: the application ids of a namespace are its own, and the daemon shows applications as "
        "NAMESPACE.ID; bare: all namespaces share them, and a pod that names the application of another namespace "
        "waits, with a warning, until that application has ended.",
    )
    shared_applications: bool = Field(
        default=False,
        description="Pods may join an application of another namespace by its id, and so use its queue. Application "
        "ids are bare then.",
    )
    shared_users: bool = Field(
        default=False,
        description="Pods may join an application of another user by its id, and so use the limits of that user. "
        "Otherwise such a pod waits, with a warning, until that application has ended.",
    )
    daemonset_namespaces: Annotated[tuple[str, ...], BeforeValidator(listed)] = Field(
        default=("kube-system",),
        description="Pods of DaemonSets of these namespaces preempt pods of up to their own priority on their node, "
        "those of all other namespaces only pods of strictly lower priority; several are separated by commas.",
    )
    disruption_budgets: Annotated[BudgetPolicy, BeforeValidator(lower)] = Field(
        default=BudgetPolicy.RESPECT,
        description="respect: no pods are preempted that a PodDisruptionBudget does not let go; ignore: they are.",
    )
    placeholders: Annotated[PlaceholderKind, BeforeValidator(lower)] = Field(
        default=PlaceholderKind.PODS,
        description="How the room of gangs with task groups is held until their pods come, unless the annotation "
        "schedulerd.io/placeholders says so. pods: by pods that do nothing, which other schedulers and autoscalers "
        "see, unless all pods of the gang exist; always: also then; none: in the daemon alone.",
    )
    gang_members_max: int = Field(
        default=MEMBERS_MAX,
        ge=1,
        le=1_000_000,
        description="Members of a gang with task groups, which may be as many placeholder pods. The task groups of a "
        "larger gang cannot be used.",
    )
    placeholder_image: str = Field(
        default="registry.k8s.io/pause:3.10", min_length=1, description="Container image of placeholder pods."
    )
    placeholder_user: int | None = Field(
        default=None,
        ge=1,
        le=2**31 - 1,
        description="User and group id of placeholder pods. Without it they run as the user of their image, which has "
        "to be a number other than 0, or as the one that OpenShift gives to pods of the namespace.",
    )
    pod_groups: bool = Field(
        default=True,
        description="Pods of a PodGroup of scheduling.x-k8s.io (coscheduling) are a gang, where the API server has "
        "such objects.",
    )
    scheduling_groups: bool = Field(
        default=False,
        description="Pods with a scheduling group of Kubernetes itself (scheduling.k8s.io, alpha) are a gang, where "
        "the API server has such objects.",
    )
    leader_elect: bool = Field(
        default=False,
        description="Of several processes only the one that holds a Lease schedules; the others stand by. Needed with "
        "more than one replica.",
    )
    lease_name: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        default="schedulerd", description="Name of the Lease: one per cluster and scheduler name."
    )
    lease_namespace: str | None = Field(
        default=None,
        min_length=1,
        max_length=63,
        description="Namespace of the Lease. Without it, that of the service account or of the context.",
    )
    lease_identity: str = Field(
        default="",
        max_length=200,
        description="How the Lease names this process; a random suffix is added. Without it, the host's name, which in "
        "a pod is the pod's.",
    )
    lease_duration_s: int = Field(
        default=15, ge=1, le=3_600, description="Seconds without a renewal after which another process takes over."
    )
    lease_renew_deadline_s: Seconds = Field(
        default=10,
        description="Seconds without a renewal after which the leader writes nothing any longer and ends; less than "
        "the duration.",
    )
    lease_retry_s: Seconds = Field(
        default=2, description="Seconds between two renewals; the deadline is more than 1.2 times as long."
    )
    pod_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="Name of the pod of this process, in the namespace of the Lease: its label schedulerd.io/role is "
        "set to leader or standby, so that a Service can select the leader.",
    )
    leave_out_node_s: Seconds = Field(
        default=60,
        description="Seconds for which a node is left out at most for a pod that could not be bound to it: 2 seconds "
        "after the first failure of the pod, twice as long after each further one.",
    )
    volume_bind_timeout_s: Seconds = Field(
        default=600,
        description="Seconds for which a pod that has its node waits for the volumes of its claims. Then it is "
        "scheduled again.",
    )
    writes_per_s: float = Field(
        default=2_000,
        gt=0,
        le=100_000,
        allow_inf_nan=False,
        description="Writes to the API server per second, bindings included.",
    )
    writes_in_flight: int = Field(
        default=64, ge=1, le=1_000, description="Writes to the API server that are under way at a time."
    )
    reason_writes_per_s: float = Field(
        default=100,
        gt=0,
        le=100_000,
        allow_inf_nan=False,
        description="Conditions and events per second that say why pods wait, when more than 1,000 are to be written.",
    )
    connect_timeout_s: Seconds = Field(default=60, description="Seconds to wait for the daemon at the start.")
    drain_timeout_s: Seconds = Field(
        default=5, description="Seconds for writes to the API server to end, when the process is told to end."
    )
    journal: DirectoryPath | None = Field(
        default=None,
        description="Directory in which each start writes a new journal of what API server and daemon have said, for "
        "`schedulerd kubernetes-replay`. Without it, no journal is written.",
    )
    journal_file_max_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=2**20,
        le=2**40,
        description="Size in bytes at which the journal continues in its next file.",
    )
    journal_max_bytes: int = Field(
        default=2**30,
        ge=2**20,
        le=2**50,
        description="Size in bytes of all journals in the directory at which the journal ends; scheduling continues. "
        "No file is removed: a replay needs all files of a journal.",
    )
    log_level: LogLevelName = Field(
        default=LogLevel.INFO, description="Lowest severity that is logged: debug, info, warning or error."
    )
    log_format: LogFormatName = Field(
        default=LogFormat.JSON, description="json: one JSON object per line; console: text for people."
    )

    @model_validator(mode="after")
    def _lease_times_fit(self) -> Self:
        if not self.lease_renew_deadline_s < self.lease_duration_s:
            raise ValueError(
                f"lease_renew_deadline_s = {self.lease_renew_deadline_s:g} must be less than "
                f"lease_duration_s = {self.lease_duration_s}: between the two nobody writes"
            )
        if not self.lease_renew_deadline_s > 1.2 * self.lease_retry_s:
            raise ValueError(
                f"lease_renew_deadline_s = {self.lease_renew_deadline_s:g} must be more than 1.2 times "
                f"lease_retry_s = {self.lease_retry_s:g}: a renewal that fails is to be tried again"
            )
        return self

    def lease_times(self) -> LeaseTimes:
        return LeaseTimes(self.lease_duration_s, self.lease_renew_deadline_s, self.lease_retry_s)

    def cluster(self, *, has_disruption_condition: bool) -> ClusterSettings:
        return ClusterSettings(
            scheduler_names=frozenset(self.scheduler_name),
            one_application_per_pod=self.one_application_per_pod,
            application_ids=self.application_ids,
            shares_applications=self.shared_applications,
            shares_users=self.shared_users,
            daemon_set_namespaces=frozenset(self.daemonset_namespaces),
            respects_budgets=self.disruption_budgets is BudgetPolicy.RESPECT,
            has_disruption_condition=has_disruption_condition,
            placeholders=self.placeholders,
            placeholder_image=self.placeholder_image,
            gang_members_max=self.gang_members_max,
            avoided_ns=int(self.leave_out_node_s * SECOND_NS),
            placeholder_user=self.placeholder_user,
            volume_bind_timeout_ns=int(self.volume_bind_timeout_s * SECOND_NS),
            reason_writes_per_s=self.reason_writes_per_s,
        )

    def gang_sources(self) -> frozenset[GangSource]:
        wanted = {GangSource.COSCHEDULING: self.pod_groups, GangSource.KUBERNETES: self.scheduling_groups}
        return frozenset(source for source, is_wanted in wanted.items() if is_wanted)
