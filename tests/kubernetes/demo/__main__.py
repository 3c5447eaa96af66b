"""python -m tests.kubernetes.demo [--keep] [--fake]: see `make kubernetes`. Exit code 0: all was as expected."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
from pathlib import Path
from typing import TextIO

from tests.kubernetes.contract.real_server import assets
from tests.kubernetes.demo.cluster import Cluster
from tests.kubernetes.demo.narrator import Narrator
from tests.kubernetes.demo.story import Story

ON_THE_FAKE = """
KUBEBUILDER_ASSETS is not set, so this is played on a Kubernetes API server that is a fake, made for tests, and Jobs and
Deployments are played. To see it on a real one, set the variable to a folder with kube-apiserver,
kube-controller-manager, etcd and kubectl:

    KUBEBUILDER_ASSETS=/folder make kubernetes
"""
KEPT = """
Everything is left running until Ctrl-C. In another terminal:

    export KUBECONFIG={kubeconfig}
    kubectl get pods --all-namespaces -o wide
    kubectl -n red describe pods
    kubectl -n blue create deployment mine --image=pause --dry-run=client -o yaml \\
        | sed 's/^    spec:/    spec:\\n      schedulerName: schedulerd/' | kubectl apply -f -

    metrics of the shim:   {shim}/metrics
    state of the daemon:   {daemon}/debug/state
"""
KEPT_FAKE = """
Everything is left running until Ctrl-C:

    pods:                  curl -H 'Authorization: Bearer {token}' {url}/api/v1/pods
    metrics of the shim:   {shim}/metrics
    state of the daemon:   {daemon}/debug/state
"""

INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def play(folder: Path | None, *, keep: bool = False, out: TextIO = sys.stdout) -> int:
    """The exit code."""
    server = "the fake" if folder is None else "kube-apiserver, kube-controller-manager and etcd"
    _end_on_signals()
    print(f"Starting an API server ({server}), a daemon and a shim.", file=out, flush=True)
    async with Cluster(folder) as cluster:
        narrator = Narrator(cluster, out)
        narrator.say("Three nodes of four processors are there; their kubelets are played. A # is a processor in use.")
        await Story(cluster, narrator).play()
        code = narrator.summary()
        if keep:
            text = KEPT_FAKE if folder is None else KEPT
            told = {"kubeconfig": cluster.kubeconfig, "shim": cluster.shim_url, "daemon": cluster.daemon.url}
            print(text.format(**told, token=cluster.token, url=cluster.url), file=out, flush=True)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()  # until a signal
    return code


def _end_on_signals() -> None:
    """The first signal ends what is played, in order. The second one ends the process at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end(number: signal.Signals) -> None:
        for one in SIGNALS:
            loop.remove_signal_handler(one)
        task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, end, number)


def main() -> None:
    parser = argparse.ArgumentParser(description="Show schedulerd on a Kubernetes API server.")
    parser.add_argument("--keep", action="store_true", help="leave everything running at the end, until Ctrl-C")
    parser.add_argument("--fake", action="store_true", help="on the fake server, whatever KUBEBUILDER_ASSETS says")
    given = parser.parse_args()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    folder = None if given.fake else assets()
    if folder is None and not given.fake:
        print(ON_THE_FAKE)
    try:
        code = asyncio.run(play(folder, keep=given.keep))
    except asyncio.CancelledError:
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
