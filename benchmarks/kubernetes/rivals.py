"""Who binds pods: schedulerd, the kube-scheduler beside the API server, and a binder that decides nothing."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from benchmarks.kubernetes.cluster import Workload, daemon, kubeconfig
from benchmarks.kubernetes.processes import Measured
from schedulerd.simulate.demo import free_port
from tests.kubernetes.contract.real_server import RealServer

SCHEDULER = "bench-scheduler"
LIFTED = 100_000


class Rival:
    """What is measured of a scheduler that runs."""

    def __init__(self, pids: list[int], check: Callable[[], None]) -> None:
        self.pids = pids
        self.check = check
        """Raises `WrongResult` if it has ended."""


Start: TypeAlias = "Callable[[Workload, RealServer, Path, Path], contextlib.AbstractContextManager[Rival]]"
"""With a folder of its own, and the folder of the servers."""


@contextmanager
def schedulerd(workload: Workload, server: RealServer, folder: Path, assets: Path) -> Iterator[Rival]:
    config = folder / "kubeconfig"
    config.write_text(kubeconfig(server.url, server.token))
    with daemon(workload, folder) as beside:
        beside.wait_until_ready()
        with Measured(shim_command(config, beside.target), folder / "shim.log") as shim:
            yield Rival([shim.pid, beside.pid], shim.check)


def shim_command(config: Path, target: str, module: str = "schedulerd", *flags: str) -> list[str]:
    command = [sys.executable, "-m", module, *(["kubernetes"] if module == "schedulerd" else [])]
    command += ["--kubeconfig", str(config), "--daemon", target, "--scheduler-name", SCHEDULER]
    return [*command, "--http-bind", "127.0.0.1:0", *flags]


@contextmanager
def kube_scheduler(workload: Workload, server: RealServer, folder: Path, assets: Path) -> Iterator[Rival]:
    config, settings = folder / "kubeconfig", folder / "kube-scheduler.json"
    config.write_text(kubeconfig(server.url, server.token))
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
        "kind": "KubeSchedulerConfiguration",
        "healthzBindAddress": f"127.0.0.1:{free_port()}",
        "metricsBindAddress": f"127.0.0.1:{free_port()}",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(config), "qps": LIFTED, "burst": LIFTED},
        "profiles": [{"schedulerName": SCHEDULER}],
    }
    settings.write_text(json.dumps(content))
    command = [str(assets / "kube-scheduler"), f"--config={settings}", "--secure-port=0"]
    with Measured(command, folder / "kube-scheduler.log") as process:
        yield Rival([process.pid], process.check)


@contextmanager
def binder(workload: Workload, server: RealServer, folder: Path, assets: Path) -> Iterator[Rival]:
    command = [sys.executable, "-m", "benchmarks.kubernetes.binder", server.url, server.token, SCHEDULER]
    with Measured(command, folder / "binder.log") as process:
        yield Rival([process.pid], process.check)


RIVALS: Mapping[str, Start] = {"schedulerd": schedulerd, "kube-scheduler": kube_scheduler, "binder": binder}
