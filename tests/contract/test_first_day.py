"""docs/first-day.md, run as it is against a real daemon: its files, its commands, and the output that it shows.

The page says in the info string of a block where the block belongs: `sh terminal 1` is typed in terminal 1 and goes on
running there, `text terminal 1` is what terminal 1 shows next, `sh` and `text` without a terminal are a command that
ends and all of its output. `sh install` is not run: this environment is installed already.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.daemon_process import LIMIT_SECONDS
from tests.contract.interruptible import interruptible

PAGE = (Path(__file__).parents[2] / "docs" / "first-day.md").read_text(encoding="utf-8")
PORTS = {"grpc": 3333, "http": 9080}
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "COLUMNS": "100",
    "PYTHONUNBUFFERED": "1",
    "PYTHONWARNINGS": "error",
    "SCHEDULERD_GRPC_BIND": "127.0.0.1:0",
    "SCHEDULERD_HTTP_BIND": "127.0.0.1:0",
    "SCHEDULERD_QUEUE_FILE_POLL_S": "0.05",
}

pytestmark = [
    pytest.mark.timeout(90),
    pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl"),
]


@dataclass(frozen=True)
class Block:
    """A fenced block of the page."""

    language: str
    place: str
    """The rest of the info string."""
    content: str
    file: str
    """What the text before it last asked to save; for `yaml` and `python` only."""


def blocks() -> Iterator[Block]:
    file = ""
    for found in re.finditer(r"Save this as `([^`]+)`|^```(\w+) ?(.*)\n((?:.*\n)*?)```$", PAGE, re.MULTILINE):
        name, language, place, content = found.groups()
        if name:
            file = name
        else:
            yield Block(language, place, content, file)


class Terminal:
    """A command that goes on running. As a context it is killed at the end if it still runs."""

    def __init__(self, commands: str, directory: Path) -> None:
        *first, last = commands.splitlines()
        self._process = subprocess.Popen(
            interruptible(["sh", "-e", "-c", "\n".join([*first, f"exec {last}"])]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=directory,
            env={**os.environ, **ENVIRONMENT},
        )
        self._all: list[str] = []
        self._unread: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(LIMIT_SECONDS)
        self._reader.join(LIMIT_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def wait_for_line(self, shown: str) -> str:
        """The next line that looks like the one shown; lines before it are passed over."""
        while True:
            line = self._unread.get(timeout=LIMIT_SECONDS)
            if line is None:
                raise AssertionError(f"ended without a line like {shown!r}:\n" + "".join(self._all))
            if re.fullmatch(pattern(shown), line.rstrip()):
                return line

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def exit_code(self) -> int:
        return self._process.wait(LIMIT_SECONDS)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._all.append(line)
            self._unread.put(line)
        self._unread.put(None)


VARIABLE = {
    r"(?m:^\.\.\.\n)": r"(?:.*\n)*",
    r"\.\.\.": r".*",
    r"(?<=journal/)\S+": r"\S+",
    r"\d{4}-\d\d-\d\dT\S+Z": r"\S+Z",
    r"\bnode-\d": r"node-\d",
    r"(?:(?<=schedulerd )|(?<=version=))\d+\.\d+\.\d+": r"\S+",
    r"(?<=_port=)\d+": r"\d+",
    r"(?<=│)[ ]+\d+\.\d+": r"[ ]+[\d.]+",
    r"[ ]{2,}(?=\[)": r"[ ]+",
}
"""What differs from run to run: as the page writes it, and what is in its place in a pattern of what may be printed."""
_WRITTEN = re.compile("|".join(f"({written})" for written in VARIABLE))
_MEANT = list(VARIABLE.values())


def pattern(shown: str) -> str:
    """A regular expression for output like the one shown; `...` is anything, and on a line of its own many lines."""
    parts, at = [], 0
    for found in _WRITTEN.finditer(shown):
        assert found.lastindex is not None
        parts += [re.escape(shown[at : found.start()]), _MEANT[found.lastindex - 1]]
        at = found.end()
    return "".join([*parts, re.escape(shown[at:])])


def printed(commands: str, directory: Path, http: str | None) -> str:
    """What commands print that end by themselves, without spaces at the ends of lines. `http`: where the daemon is for
    commands that take it to be at its usual port."""
    server = {} if http is None else {"SCHEDULERD_SERVER": f"http://{http}"}
    ended = subprocess.run(
        ["sh", "-e"],
        input=commands,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
        cwd=directory,
        env={**os.environ, **ENVIRONMENT, **server},
    )
    assert ended.returncode == 0, ended.stdout
    return "".join(f"{line.rstrip()}\n" for line in ended.stdout.splitlines())


def run(page: Iterator[Block], directory: Path, kept: ExitStack) -> dict[str, Terminal]:
    """Types the page; gives the terminals that it uses, by name."""
    terminals: dict[str, Terminal] = {}
    addresses: dict[str, str] = {}
    """Those of the page, and those of the daemon in this test."""
    output: str | None = None
    """Of the last command, until it is compared."""

    def here(text: str) -> str:
        for written, address in addresses.items():
            text = text.replace(written, address)
        return text

    for block in page:
        assert output is None or block.language == "text", f"the page does not show what is printed: {output}"
        match block:
            case Block("yaml" | "python"):
                (directory / block.file).write_text(here(block.content), encoding="utf-8")
            case Block("sh", "install"):
                assert not terminals
            case Block("sh", ""):
                output = printed(here(block.content), directory, addresses.get("localhost:9080")) or None
            case Block("sh", place, "^C\n"):
                terminals[place].interrupt()
            case Block("sh", place):
                terminals[place] = kept.enter_context(Terminal(here(block.content), directory))
            case Block("text", ""):
                assert output is not None
                assert re.fullmatch(pattern(here(block.content)), output), output
                output = None
            case Block("text", place):
                for shown in block.content.splitlines():
                    line = terminals[place].wait_for_line(here(shown))
                    for port, number in re.findall(r"(grpc|http)_port=(\d+)", line):
                        addresses[f"localhost:{PORTS[port]}"] = f"localhost:{number}"
            case _:
                raise AssertionError(f"nobody knows what to do with {block}")
    return terminals


def test_the_page_is_what_happens(tmp_path: Path) -> None:
    with ExitStack() as kept:
        terminals = run(blocks(), tmp_path, kept)
        assert {name: one.exit_code() for name, one in terminals.items()} == {"terminal 1": 0, "terminal 2": 0}


def test_only_the_install_is_not_run() -> None:
    assert [block.place for block in blocks() if block.language == "sh"].count("install") == 1
    assert len(list(blocks())) == PAGE.count("\n```") // 2


def test_a_pattern_is_as_strict_as_the_page() -> None:
    shown = "a.b node-1 (x)\n...\nlast ... line\n"
    assert re.fullmatch(pattern(shown), "a.b node-2 (x)\nmore\nand more\nlast but one line\n")
    assert re.fullmatch(pattern(shown), "a.b node-2 (x)\nlast  line\n")
    assert not re.fullmatch(pattern(shown), "a-b node-2 (x)\nlast  line\n")
    assert not re.fullmatch(pattern(shown), "a.b node-2 (x)\nlast  line\nand more\n")
