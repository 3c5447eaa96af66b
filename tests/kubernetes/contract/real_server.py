"""A real kube-apiserver with its etcd, on free ports, in a folder of its own, killed at the end."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from tests.kubernetes.contract.repaired import repaired

START_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 10.0
TOKEN = "contract-token"
GROUP = "system:masters"


def assets() -> Path | None:
    """The folder with the servers, if there is one."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    if not named:
        return None
    folder = Path(named)
    for name in ("kube-apiserver", "etcd"):
        if not os.access(folder / name, os.X_OK):
            raise FileNotFoundError(f"KUBEBUILDER_ASSETS is {named}, which has no {name}")
    return folder


def knows(folder: Path, flag: str) -> bool:
    """Whether the API server has a flag: those of before 1.24 listen without TLS unless they are told not to."""
    command = [str(folder / "kube-apiserver"), flag, "--help"]
    return subprocess.run(command, capture_output=True, timeout=START_SECONDS_MAX).returncode == 0


class RealServer:
    """A context; `url` speaks TLS with a certificate of its own making, and takes the token."""

    def __init__(self, folder: Path, *, has_services: bool = False) -> None:
        """`has_services`: it reaches Services by a proxy at `services_socket` (tests/kubernetes/node/services.py)."""
        self._assets = folder
        self.has_services = has_services
        self._folder = Path(tempfile.mkdtemp(prefix="contract-k8s-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._server: tuple[str, ...] = ()
        """The flags of the API server."""
        self._port = 0
        self.token = TOKEN
        self.url = self.etcd_url = ""
        self.has_controllers = False

    def __enter__(self) -> RealServer:
        try:
            self._start()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_SECONDS_MAX)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        client, peer, port = free_ports(3)
        self.etcd_url = f"http://127.0.0.1:{client}"
        self._run(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        )
        key = self._folder / "service-accounts.key"
        subprocess.run(
            ["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True, timeout=START_SECONDS_MAX
        )
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f'{TOKEN},contract,contract,"{GROUP}"\nnobody-token,nobody,nobody\n')
        self._port = port
        self._server = (
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            *(one for one in ["--insecure-port=0"] if knows(self._assets, one)),
            f"--cert-dir={self._folder / 'certificates'}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--service-account-issuer=https://127.0.0.1:{port}",
            f"--service-account-signing-key-file={key}",
            f"--service-account-key-file={key}",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--endpoint-reconciler-type=none",
            *self._egress(),
        )
        self.url = f"https://127.0.0.1:{port}"
        self.start_server()

    def start_server(self) -> None:
        """The API server alone: at first, or after it was killed."""
        self._run("kube-apiserver", *self._server)
        self._wait_until_ready(self._port)

    def kill_server(self) -> None:
        """The API server ends at once; etcd stays, with everything that is stored."""
        process = self._processes.pop()
        assert str(process.args[0]).endswith("kube-apiserver"), "controllers were started after it"  # type: ignore[index]
        process.kill()
        process.wait(STOP_SECONDS_MAX)

    @property
    def services_socket(self) -> Path:
        return self._folder / "services.sock"

    def _egress(self) -> list[str]:
        """What makes the API server send through the proxy whatever is for Services."""
        if not self.has_services:
            return []
        file = self._folder / "egress.json"
        transport = {"uds": {"udsName": str(self.services_socket)}}
        selection = {"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": transport}}
        about = {"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration"}
        file.write_text(json.dumps({**about, "egressSelections": [selection]}))
        return [f"--egress-selector-config-file={file}"]

    @property
    def kubectl(self) -> Path:
        return self._assets / "kubectl"

    @property
    def kubeconfig(self) -> Path:
        """A file with the way here, for an administrator."""
        file = self._folder / "kubeconfig"
        if not file.exists():
            write_kubeconfig(file, self.url, TOKEN)
        return file

    def start_controllers(self) -> None:
        """Jobs, DaemonSets, evictions from lost nodes, garbage collection: what a cluster has besides the server.

        Nodes are lost when their condition Ready says so, and not by silence, as nobody sends heartbeats.
        """
        if self.has_controllers:
            return
        self.has_controllers = True
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--root-ca-file={self._folder / 'certificates' / 'apiserver.crt'}",
            "--leader-elect=false",
            "--port=0",
            "--secure-port=0",
            "--controllers=*,-cloud-node-lifecycle,-route,-service,-ttl,-nodeipam",
            "--node-monitor-grace-period=1h",
            "--node-startup-grace-period=1h",
            "--node-monitor-period=1s",
            "--node-eviction-rate=10",
            "--secondary-node-eviction-rate=10",
        )

    def _run(self, name: str, *flags: str) -> None:
        log = (self._folder / f"{name}.log").open("wb")
        program = repaired(self._assets / name) if name == "kube-apiserver" else self._assets / name
        with log:
            process = subprocess.Popen(
                [str(program), *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder
            )
        self._processes.append(process)

    def _wait_until_ready(self, port: int) -> None:
        context = ssl._create_unverified_context()
        end_s = time.monotonic() + START_SECONDS_MAX
        while True:
            for process in self._processes:
                if process.poll() is not None:
                    raise AssertionError(f"{process.args!r} ended:\n{self._log()}")
            try:
                connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=5.0, context=context)
                connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
                status = connection.getresponse().status
                connection.close()
                if status == 200:
                    return
            except OSError:
                pass
            if time.monotonic() > end_s:
                raise AssertionError(f"not ready within {START_SECONDS_MAX:g} s:\n{self._log()}")
            time.sleep(0.1)  # a process of somebody else, which has no other way to say that it is ready

    def _log(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in self._folder.glob("*.log"))


def write_kubeconfig(file: Path, server: str, token: str, namespace: str = "default") -> None:
    """As JSON, which is YAML."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": namespace}}],
    }
    if not server.startswith("https"):
        content["clusters"] = [{"name": "k", "cluster": {"server": server}}]
    file.write_text(json.dumps(content))


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
