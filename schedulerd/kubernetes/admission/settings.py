"""The settings of `schedulerd admission`, as one frozen model with their defaults, their bounds and their help."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

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

from schedulerd.kubernetes.admission.rules.namespaces import KUBE_SYSTEM, NamespaceRules
from schedulerd.kubernetes.admission.rules.patterns import Patterns
from schedulerd.kubernetes.admission.rules.pods import PodRules
from schedulerd.kubernetes.admission.rules.queues import QueueRules
from schedulerd.kubernetes.admission.rules.users import TrustedUsers
from schedulerd.kubernetes.admission.rules.workloads import BUILT_IN, parse_workload
from schedulerd.settings.values import Address, LogFormat, LogFormatName, LogLevel, LogLevelName, Target, listed

ENVIRONMENT_PREFIX = "SCHEDULERD_ADMISSION_"
LIST_MAX = 200
"""Entries of a list."""
_ACCOUNT = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


def _patterns(texts: tuple[str, ...]) -> tuple[str, ...]:
    Patterns(texts)
    return texts


def _accounts(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        if _ACCOUNT.fullmatch(text) is None:
            raise ValueError(f'"{text}" is not NAMESPACE/NAME of a service account, like spark-operator/spark-operator')
    return texts


def _workloads(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        parse_workload(text)
    return texts


Texts = Annotated[tuple[str, ...], BeforeValidator(listed), Field(max_length=LIST_MAX)]
PatternTexts = Annotated[Texts, AfterValidator(_patterns)]
Name = Annotated[str, Field(min_length=1, max_length=253)]


class AdmissionSettings(BaseModel):
    """All that can be set. Descriptions are the help of the flags."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bind: Address = Field(
        default="0.0.0.0:9443", description="HOST:PORT of the webhooks (HTTPS); port 0 takes any free port."
    )
    http_bind: Address = Field(
        default="0.0.0.0:9082",
        description="HOST:PORT of the HTTP server (metrics and probes); port 0 takes any free port.",
    )
    kubeconfig: FilePath | None = Field(
        default=None,
        description="Kubeconfig file with the way to the API server. Without it: the files of the variable KUBECONFIG, "
        "the service account of the pod, or ~/.kube/config.",
    )
    context: str | None = Field(default=None, description="Context of the kubeconfig. Without it, its current one.")
    namespace: str | None = Field(
        default=None,
        max_length=63,
        description="Namespace in which schedulerd runs. Without it, that of the service account or the kubeconfig. "
        "Neither it nor kube-system is ever touched, and requests of its service accounts are let through.",
    )
    scheduler_name: Annotated[tuple[Name, ...], BeforeValidator(listed), Field(min_length=1, max_length=LIST_MAX)] = (
        Field(
            default=("schedulerd",),
            description="Names of the scheduler, those of schedulerd kubernetes. Pods of the default scheduler get the "
            "first.",
        )
    )
    process_namespaces: PatternTexts = Field(
        default=(),
        description="Namespaces whose pods are given to the scheduler: regular expressions for whole names, separated "
        "by commas. Empty: all. The annotation namespace.enabled of a namespace wins.",
    )
    bypass_namespaces: PatternTexts = Field(
        default=(KUBE_SYSTEM,), description="Namespaces whose pods are not, although process_namespaces has them."
    )
    label_namespaces: PatternTexts = Field(
        default=(),
        description="Namespaces whose pods get an application id if they have none. Empty: all. The annotation "
        "namespace.generateAppId of a namespace wins.",
    )
    no_label_namespaces: PatternTexts = Field(
        default=(), description="Namespaces whose pods do not, although label_namespaces has them."
    )
    one_application_per_pod: bool = Field(
        default=False,
        description="An application id that is generated is that of the pod alone. Otherwise all such pods of a "
        "namespace are one application.",
    )
    trusted_users: PatternTexts = Field(
        default=("system:kube-controller-manager", "system:serviceaccount:kube-system:.*"),
        description="Who may write any user.info: regular expressions for whole user names.",
    )
    trusted_groups: PatternTexts = Field(default=(), description="The same for groups of users.")
    trusted_service_accounts: Annotated[Texts, AfterValidator(_accounts)] = Field(
        default=(),
        description="The same for service accounts, as NAMESPACE/NAME: operators that make pods for other people. The "
        "chart has those of its custom resources.",
    )
    custom_resources: Annotated[Texts, AfterValidator(_workloads)] = Field(
        default=(),
        description="Custom resources whose pods get the user: GROUP/RESOURCE=PATH, with + between several paths. A "
        "path leads to a pod template, to annotations, or to sparkConf; * is every element. The chart has values for "
        "those of Spark, Ray, Kubeflow, JobSet and MPI.",
    )
    queue_config_map: Name = Field(
        default="schedulerd-queues",
        description="ConfigMap of the namespace with the queue files (keys ending in .yaml).",
    )
    policy_group: Annotated[str, Field(max_length=64)] = Field(
        default="", description="policyGroup of the shim: its queue file is the one whose impact is asked."
    )
    daemon: Target | None = Field(
        default=None,
        description="HOST:PORT of the daemon that leads, which tells the impact of a queue file. Without it, the "
        "impact is unknown.",
    )
    rm_id: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        default="kubernetes", description="rmID of the shim at the daemon."
    )
    daemon_ca_file: Path | None = Field(
        default=None,
        description="Authorities (PEM) of the daemon's certificate. Turns TLS on. This file and the next two are read "
        "for each question, so they may come later.",
    )
    daemon_cert_file: Path | None = Field(
        default=None, description="Certificate chain (PEM) to show to the daemon, for mutual TLS."
    )
    daemon_key_file: Path | None = Field(default=None, description="Private key (PEM) of daemon_cert_file.")
    tls_dir: DirectoryPath | None = Field(
        default=None,
        description="Folder with tls.crt and tls.key (PEM), as cert-manager's Secret is mounted; read again when they "
        "change. Without it, certificates are made here and kept in a Secret.",
    )
    tls_secret: Name = Field(
        default="schedulerd-admission-tls", description="Secret with the certificates that are made here."
    )
    service: Name = Field(
        default="schedulerd-admission",
        description="Service by which the API server calls: the name in the certificate.",
    )
    certificate_names: Annotated[Texts, Field(max_length=10)] = Field(
        default=(),
        description="Further names of the certificate that is made here: of the daemon that leads, which may use it "
        "too, or those by which the API server calls without a Service.",
    )
    mutating_configuration: Name | None = Field(
        default="schedulerd",
        description="MutatingWebhookConfiguration that gets the authority of these certificates (caBundle).",
    )
    validating_configuration: Name | None = Field(
        default="schedulerd", description="ValidatingWebhookConfiguration that gets it."
    )
    drain_timeout_s: float = Field(
        default=5,
        gt=0,
        le=3_600,
        allow_inf_nan=False,
        description="Seconds for which requests are still answered when the process is told to end.",
    )
    log_level: LogLevelName = Field(
        default=LogLevel.INFO, description="Lowest severity that is logged: debug, info, warning or error."
    )
    log_format: LogFormatName = Field(
        default=LogFormat.JSON, description="json: one JSON object per line; console: text for people."
    )

    @model_validator(mode="after")
    def _files_of_daemon(self) -> AdmissionSettings:
        if (self.daemon_cert_file is None) != (self.daemon_key_file is None):
            raise ValueError("daemon_cert_file and daemon_key_file must be given together")
        if self.daemon_cert_file is not None and self.daemon_ca_file is None:
            raise ValueError("daemon_cert_file needs daemon_ca_file too")
        return self

    def pod_rules(self, namespace: str) -> PodRules:
        """`namespace` is the one in which schedulerd runs."""
        workloads = [*BUILT_IN, *map(parse_workload, self.custom_resources)]
        accounts = (account.split("/") for account in self.trusted_service_accounts)
        return PodRules(
            scheduler_names=self.scheduler_name,
            unique_app_ids=self.one_application_per_pod,
            namespaces=NamespaceRules(
                own=namespace,
                process=Patterns(self.process_namespaces),
                bypass=Patterns(self.bypass_namespaces),
                label=Patterns(self.label_namespaces),
                no_label=Patterns(self.no_label_namespaces),
            ),
            trusted=TrustedUsers(
                Patterns(self.trusted_users),
                Patterns(self.trusted_groups),
                frozenset((account[0], account[1]) for account in accounts),
            ),
            workloads={(one.group, one.resource): one for one in workloads},
        )

    def queue_rules(self, namespace: str) -> QueueRules:
        return QueueRules(namespace, self.queue_config_map, self.policy_group)
