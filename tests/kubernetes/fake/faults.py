"""What goes wrong between client and server: by script, or drawn from a seeded plan.

faults.add(Fault("lose"), method="POST", subresource="binding")       # the next one, once
faults.add(Fault("refuse", code=429, retry_after_s=2), plural="pods", times=3)
faults.draw(random.Random(7), {"lose": 0.02, "cut": 0.02, "refuse": 0.05})
"""

from __future__ import annotations

import asyncio
import random as random_module
from dataclasses import dataclass, field
from typing import Literal

Name = Literal[
    "refuse", "cut", "lose", "halve", "fail_after", "hang", "hang_after", "cut_watch", "end_watch", "stall_watch"
]
WATCH_FAULTS = ("cut_watch", "end_watch", "stall_watch")


@dataclass(frozen=True, slots=True)
class Fault:
    """
    | name | the request is performed | the client sees |
    |---|---|---|
    | refuse | no | the code, with Retry-After |
    | cut | no | a closed connection |
    | lose | yes | a closed connection |
    | halve | yes, but of a deletion of a pod only the mark: the server was killed in between | a closed connection |
    | fail_after | yes | the code |
    | hang, hang_after | no, yes | nothing, until it gives up |
    | cut_watch, end_watch, stall_watch | - | after so many lines: a cut, an orderly end, or silence |
    """

    name: Name
    code: int = 429
    retry_after_s: int | None = None
    reason: str = ""
    message: str = "fault"
    lines: int = 0


@dataclass(slots=True)
class _Rule:
    fault: Fault
    method: str
    plural: str
    subresource: str | None
    name: str
    times: int

    def matches(self, method: str, plural: str, subresource: str, name: str) -> bool:
        return (
            self.times > 0
            and (self.fault.name in WATCH_FAULTS) == (method == "WATCH")
            and self.method in ("", method)
            and self.plural in ("", plural)
            and self.subresource in (None, subresource)
            and self.name in ("", name)
        ) or (
            self.times > 0
            and self.fault.name in ("refuse", "cut", "hang")
            and method == "WATCH" == self.method
            and self.plural in ("", plural)
        )


@dataclass
class Faults:
    """`happened` lists what was done, for tests that want to know that it was."""

    happened: list[tuple[str, str, str]] = field(default_factory=list)
    """Fault, method, path. `expired` (method: `line` or `code`) and `unauthorized` are there too."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Set it to let hanging requests go."""
    _rules: list[_Rule] = field(default_factory=list)
    _random: random_module.Random | None = None
    _rates: dict[str, float] = field(default_factory=dict)

    def add(
        self,
        fault: Fault,
        *,
        method: str = "",
        plural: str = "",
        subresource: str | None = None,
        name: str = "",
        times: int = 1,
    ) -> None:
        self._rules.append(_Rule(fault, method, plural, subresource, name, times))

    def draw(self, random: random_module.Random, rates: dict[str, float]) -> None:
        """From now on each request has these faults with these probabilities; none stops it."""
        self._random, self._rates = random, rates

    def stop(self) -> None:
        self._rules.clear()
        self._rates = {}
        self.released.set()

    def next(self, method: str, path: str, plural: str, subresource: str, name: str) -> Fault | None:
        """`method` is WATCH for watches."""
        for rule in self._rules:
            if rule.matches(method, plural, subresource, name):
                rule.times -= 1
                self.happened.append((rule.fault.name, method, path))
                return rule.fault
        drawn = self._drawn(method)
        if drawn is not None:
            self.happened.append((drawn.name, method, path))
        return drawn

    def _drawn(self, method: str) -> Fault | None:
        random = self._random
        if random is None:
            return None
        for name, rate in self._rates.items():
            if (name in WATCH_FAULTS) != (method == "WATCH"):
                continue
            if random.random() < rate:
                match name:
                    case "refuse":
                        return Fault("refuse", random.choice((429, 503)), random.choice((1, 2)))
                    case "fail_after":
                        return Fault("fail_after", random.choice((500, 504)))
                    case "cut_watch" | "end_watch" | "stall_watch":
                        return Fault(name, lines=random.randrange(20))
                    case "cut" | "lose" | "halve" | "hang" | "hang_after":
                        return Fault(name)
        return None
