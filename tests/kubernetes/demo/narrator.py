"""What the demonstration prints: chapters, what the cluster does, and whether it did what was expected."""

from __future__ import annotations

import sys
import textwrap
import time
from collections import Counter
from typing import TextIO

from tests.kubernetes.demo.cluster import CPU, JSON, NODES, Cluster

WIDTH = 110


class Narrator:
    def __init__(self, cluster: Cluster, out: TextIO = sys.stdout) -> None:
        self.held = 0
        self.broken: list[str] = []
        self._cluster = cluster
        self._out = out
        self._began_s = time.monotonic()
        self._chapters = 0

    def chapter(self, title: str, text: str) -> None:
        self._chapters += 1
        self._line(f"\n{self._chapters}. {title}")
        self.say(text)

    def say(self, text: str) -> None:
        for line in textwrap.wrap(" ".join(text.split()), WIDTH, initial_indent="   ", subsequent_indent="   "):
            self._line(line)

    async def expect(self, text: str, is_reached: object, seconds: float = 20.0) -> None:
        """Waits until the function says yes; what it does not say in time is an expectation that does not hold."""
        assert callable(is_reached)
        began_s = time.monotonic()
        if await self._cluster.until(is_reached, seconds):
            self.held += 1
            self._line(f"{self._now()}  ok     {text} ({time.monotonic() - began_s:.1f} s)")
        else:
            self.broken.append(text)
            self._line(f"{self._now()}  WRONG  {text}: not so after {seconds:g} s")
            self._tell_why()
        self.show()

    def show(self) -> None:
        """One line about the whole cluster."""
        used: Counter[str] = Counter()
        phases: Counter[tuple[str, str]] = Counter()
        for pod in self._cluster.pods.values():
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            node = pod["spec"].get("nodeName", "")
            used[node] += cpus(pod) if node else 0
            phases[pod["metadata"]["namespace"], "runs" if node else "waits"] += 1
        nodes = "  ".join(f"{name} [{'#' * used[name]}{'.' * (CPU - used[name])}]" for name in NODES)
        teams = ", ".join(
            f"{team} {phases[team, 'runs']} on nodes + {phases[team, 'waits']} waiting" for team in ("red", "blue")
        )
        self._line(f"{self._now()}         {nodes}  pods: {teams}")

    def _tell_why(self) -> None:
        """What the waiting pods say, and the last lines of the logs: nothing else is left when a test has ended."""
        waiting = [pod["status"] for pod in self._cluster.pods.values() if not pod["spec"].get("nodeName")]
        said = Counter("; ".join(_in_words(one) for one in status.get("conditions") or ()) for status in waiting)
        for text, count in said.items():
            self.say(f"{count} pods wait and say: {text or 'nothing'}")
        for line in self._cluster.logs():
            self._line(f"   {line}")

    def summary(self) -> int:
        """The exit code."""
        total = self.held + len(self.broken)
        self._line(f"\n{self.held} of {total} expectations held, in {time.monotonic() - self._began_s:.0f} s.")
        for text in self.broken:
            self._line(f"   WRONG  {text}")
        return 1 if self.broken else 0

    def _now(self) -> str:
        return f"{time.monotonic() - self._began_s:6.1f} s"

    def _line(self, text: str) -> None:
        print(text, file=self._out, flush=True)


def cpus(pod: JSON) -> int:
    return sum(int(one["resources"]["requests"]["cpu"]) for one in pod["spec"]["containers"])


def _in_words(condition: JSON) -> str:
    return f"{condition['type']} {condition['status']}, {condition.get('reason')}: {condition.get('message')}"
