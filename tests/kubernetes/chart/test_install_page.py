"""docs/install.md, run as it is on a real API server: its files, and its commands but for those that make the image."""

from __future__ import annotations

import asyncio
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.chart.helm import CHART, environment, program
from tests.kubernetes.chart.installation import LIMIT_SECONDS, Installation
from tests.kubernetes.contract.conftest import SETUP_SECONDS_MAX
from tests.kubernetes.contract.real_server import RealServer, assets

PAGE = (CHART.parents[1] / "docs" / "install.md").read_text()
BLOCK = re.compile(r"^( *)```(\w+) ?(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SAVED = re.compile(r"Save this as `([\w.]+)`")

pytestmark = pytest.mark.timeout(SETUP_SECONDS_MAX)


def blocks() -> Iterator[tuple[str, str, str]]:
    """What kind, its mark or the file that it is saved as, and the text."""
    for found in BLOCK.finditer(PAGE):
        saved = SAVED.findall(PAGE[: found.start()])
        mark = saved[-1] if found[2] == "yaml" else found[3]
        yield found[2], mark, textwrap.dedent(found[4])


@pytest.fixture
def alone(real: RealServer) -> Iterator[RealServer]:
    """A server of its own, as the page's names are those of other tests too."""
    folder = assets()
    assert folder is not None
    with RealServer(folder) as server:
        yield server


async def run(world: Installation, folder: Path, command: str) -> str:
    """In a shell, in a clone: `folder` has the files that were saved. Fails with its output."""
    helm = program()
    assert helm is not None
    tools = [str(path.parent) for path in (helm, world.kubectl)]
    process = await asyncio.create_subprocess_exec(
        *("sh", "-ec", command),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={
            **environment(),
            "KUBECONFIG": str(world.kubeconfig),
            "PATH": os.pathsep.join([*tools, os.environ["PATH"]]),
        },
    )
    async with asyncio.timeout(2 * LIMIT_SECONDS):
        out, _ = await process.communicate()
    world.kubelet.check()
    assert process.returncode == 0, f"{command}\n{out.decode()}"
    return out.decode()


def a_clone(folder: Path) -> Path:
    for name in ("charts", "config"):
        (folder / name).symlink_to(CHART.parents[1] / name)
    return folder


async def test_from_a_clone_to_a_pod_that_is_placed(alone: RealServer, tmp_path: Path) -> None:
    clone = a_clone(tmp_path)
    async with Installation(alone, "schedulerd", "REGISTRY/schedulerd") as world:
        await world.node("a")
        said = []
        for kind, mark, text in blocks():
            if kind == "yaml":
                (clone / mark).write_text(text)
            elif kind == "sh" and not mark:
                for command in text.splitlines():
                    said.append((command, await run(world, clone, command)))
    commands = [command.split()[:2] for command, _ in said]
    for wanted in (
        ["helm", "install"],
        ["helm", "test"],
        ["helm", "upgrade"],
        ["helm", "rollback"],
        ["helm", "uninstall"],
    ):
        assert wanted in commands
    (events,) = [out for command, out in said if command.startswith("kubectl get events")]
    assert "Successfully assigned schedulerd/hello to schedulerd-a" in events
    assert all("Running" in out for command, out in said if command == "kubectl get pod hello")


async def test_the_plain_manifests(alone: RealServer, tmp_path: Path) -> None:
    ((_, _, text),) = [one for one in blocks() if one[:2] == ("sh", "plain")]
    *needed, optional = text.splitlines()
    assert "policies.yaml" in optional, "whose versions are newer than this server"
    async with Installation(alone, "schedulerd") as world:
        await world.node("a")
        clone = a_clone(tmp_path)
        for command in needed:
            await run(world, clone, command)
        await run(world, clone, f"kubectl rollout status deployment/schedulerd --timeout={LIMIT_SECONDS:g}s")
        await world.pod("p")
        await world.until_running("p")
        await run(world, clone, f"kubectl delete -f config/kubernetes/schedulerd.yaml --timeout={LIMIT_SECONDS:g}s")
        await world.until(lambda pods: set(pods) == {"p"})
