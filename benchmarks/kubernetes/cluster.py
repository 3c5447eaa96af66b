"""What is on the cluster: nodes, queues, and the pods of applications, as JSON for an API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedulerd.simulate.demo import Daemon, free_port

JSON = dict[str, Any]
NAMESPACE = "bench"
NODE_AMOUNTS = {"cpu": "32", "memory": "128Gi", "pods": "110"}
APPLICATION, QUEUE = "yunikorn.apache.org/app-id", "yunikorn.apache.org/queue"
"""Labels of pods."""
REQUESTS = {"cpu": "250m", "memory": "256Mi"}


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods of applications in turn, in queues in turn; the last `gangs` applications are gangs, held virtually."""

    name: str
    nodes: int
    pods: int
    applications: int = 20
    queues: int = 5
    gangs: int = 0

    @property
    def queue_file(self) -> str:
        lines = ["partitions:", "  - name: default", "    queues:", "      - name: root", '        submitacl: "*"']
        lines.append("        queues:")
        lines += [f"          - name: q{number}" for number in range(self.queues)]
        return "\n".join([*lines, ""])

    def pods_of(self, scheduler: str) -> Iterator[JSON]:
        for number in range(self.pods):
            yield self.pod(number, scheduler)

    def pod(self, number: int, scheduler: str) -> JSON:
        application = number % self.applications
        label = f"app-{application}"
        metadata: JSON = {
            "name": f"pod-{number:05d}",
            "namespace": NAMESPACE,
            "labels": {"app": label, APPLICATION: label, QUEUE: f"root.q{application % self.queues}"},
        }
        if application >= self.applications - self.gangs:
            members = self.pods // self.applications
            group = {"name": "all", "minMember": members, "minResource": REQUESTS}
            metadata["annotations"] = {
                "schedulerd.io/task-group-name": "all",
                "schedulerd.io/task-groups": json.dumps([group]),
                "schedulerd.io/placeholders": "virtual",
            }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(scheduler)}

    def node(self, number: int) -> JSON:
        name = f"node-{number:04d}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
        status = {"allocatable": NODE_AMOUNTS, "capacity": NODE_AMOUNTS}
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def pod_spec(scheduler: str) -> JSON:
    environment = [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(8)]
    resources = {"requests": REQUESTS, "limits": {"memory": "512Mi"}}
    container = {"name": "main", "image": "registry.example/team/job:1.2", "env": environment, "resources": resources}
    return {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]}


def daemon(workload: Workload, folder: Path) -> Daemon:
    """At a socket file in the folder, as the Helm chart has it."""
    queue_file, target = folder / "queues.yaml", f"unix:{folder / 'grpc.sock'}"
    queue_file.write_text(workload.queue_file)
    made = Daemon(queue_file, grpc_port=free_port(), http_port=free_port(), flags=("--grpc-bind", target))
    made.target = target
    return made


def kubeconfig(server: str, token: str) -> str:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": server, **_insecure(server)}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }
    return json.dumps(content)


def _insecure(server: str) -> JSON:
    return {"insecure-skip-tls-verify": True} if server.startswith("https:") else {}
