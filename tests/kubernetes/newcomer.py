"""A newcomer's hour, in minutes: from a clone to a pod that the chart's scheduler has placed, as README and
docs/install.md say it, word by word. `make newcomer`; the slow tests run it too.

The commands are read out of the pages of the clone. helm, kubectl and the API server are real ones; the nodes run the
containers of the chart as processes, with the code of the clone in place of the image that the page has built.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tests.kubernetes.chart.helm import environment, program
from tests.kubernetes.chart.installation import Installation, image
from tests.kubernetes.contract.real_server import RealServer, assets, write_kubeconfig
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.node import sandbox

REPOSITORY = Path(__file__).parents[2]
NAME = "schedulerd"
OF_IMAGE = "REGISTRY/schedulerd"
"""As the page writes it."""
COMMAND_SECONDS_MAX = 120.0
BLOCK = re.compile(r"^( *)```(\w+) ?(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SAVED = re.compile(r"Save this as `([\w.]+)`")


class WentWrong(Exception):
    """What a page says does not work; the message has the command and its output."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    kind: str
    mark: str
    """Behind the kind; of a file, the name that it is saved as."""
    text: str


def blocks(page: str) -> Iterator[Block]:
    for found in BLOCK.finditer(page):
        saved = SAVED.findall(page[: found.start()])
        mark = saved[-1] if found[2] == "yaml" else found[3]
        yield Block(found[2], mark, textwrap.dedent(found[4]))


class Terminal:
    """Where the newcomer types: a shell with helm and kubectl, and a cluster."""

    def __init__(self, world: Installation, kubeconfig: Path, folder: Path, out: TextIO) -> None:
        helm = program()
        assert helm is not None
        tools = [str(path.parent) for path in (helm, world.kubectl)]
        path = os.pathsep.join([*tools, os.environ["PATH"]])
        self._environment = {**environment(), "KUBECONFIG": str(kubeconfig), "PATH": path}
        self._world = world
        self._out = out
        self.folder = folder
        self.said: list[tuple[str, str]] = []
        """Commands and their output."""

    async def type(self, command: str) -> str:
        """Its output. Raises WentWrong."""
        began_s = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *("sh", "-ec", command),
            cwd=self.folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
        )
        async with asyncio.timeout(COMMAND_SECONDS_MAX):
            out, _ = await process.communicate()
        self._world.kubelet.check()
        text = out.decode()
        print(f"{time.monotonic() - began_s:6.1f} s  $ {command}\n{textwrap.indent(text, ' ' * 11)}", file=self._out)
        if process.returncode != 0:
            raise WentWrong(f"{command}\n{text}")
        self.said.append((command, text))
        return text


async def play(out: TextIO = sys.stdout) -> list[tuple[str, str]]:
    """Commands and their output. Raises WentWrong, and skips nothing."""
    folder = assets()
    if folder is None or not sandbox.is_allowed():
        raise WentWrong("KUBEBUILDER_ASSETS must name a folder with a real API server, and users may make namespaces")
    with tempfile.TemporaryDirectory(prefix="newcomer-") as home, RealServer(folder, has_services=True) as server:
        where = Path(home)
        async with Installation(server, NAME, OF_IMAGE) as world:
            await world.node("a")
            kubeconfig = where / "kubeconfig"
            write_kubeconfig(kubeconfig, server.url, server.token)
            terminal = Terminal(world, kubeconfig, where, out)
            async with Kubelet(world.api, "default"):
                await _follow_the_pages(terminal, world)
        return terminal.said


async def _follow_the_pages(terminal: Terminal, world: Installation) -> None:
    (start,) = (one for one in blocks((REPOSITORY / "README.md").read_text()) if one.mark == "cluster")
    for command in start.text.splitlines():
        if command.startswith("cd "):
            terminal.folder /= command.removeprefix("cd ")
        else:
            await terminal.type(command.replace("REPOSITORY", str(REPOSITORY)))
    clone = terminal.folder
    world.kubelet.use(OF_IMAGE, image(clone))
    for block in blocks((clone / "docs" / "install.md").read_text()):
        if block.kind == "yaml":
            (clone / block.mark).write_text(block.text)
        elif block.kind == "sh" and not block.mark:
            for command in block.text.splitlines():
                await terminal.type(command)


def main() -> None:
    try:
        asyncio.run(play())
    except WentWrong as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
