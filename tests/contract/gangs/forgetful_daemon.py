"""The daemon with a bug put into it on purpose: of what a node comes with it forgets the first allocation."""

from __future__ import annotations

from schedulerd.cli import main
from schedulerd.core.language.commands import Command, UpdateNodes
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.scheduler import Scheduler

_step = Scheduler.step


def _forgetful_step(self: Scheduler, now_ns: int, command: Command) -> list[Fact]:
    if isinstance(command, UpdateNodes):
        for node in command.nodes:
            del node.existing[:1]
    return _step(self, now_ns, command)


if __name__ == "__main__":
    Scheduler.step = _forgetful_step  # type: ignore[method-assign]
    main()
