"""What one run of a workload gives, and the proof that it did what it was to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.work import Work
from benchmarks.workload import Size, Workload


@dataclass(frozen=True, slots=True)
class Intake:
    """Asks that were taken in while nothing was placed."""

    asks: int
    seconds: float
    """From just before the first request to when all were taken."""


@dataclass(frozen=True, slots=True)
class Looks:
    """The scrapes and dumps of the daemon while single asks were sent."""

    scrapes: int
    """Of its metrics."""
    dumps: int
    """Of its state."""
    longest_scrape_s: float
    """By the clock of who asked; so is the next."""
    longest_dump_s: float


@dataclass(frozen=True, slots=True)
class Measurement:
    placements: int
    """Allocations that the asks sent back to back became, placeholders and what replaced them alike."""
    seconds: float
    """From just before the first request with asks to the last of these allocations; if all asks were to be pending
    first, from when they were."""
    cpu_seconds: float
    """What the process with the scheduler computed in that time: on a busy machine more telling than the clock."""
    intake: Intake | None = None
    """None if asks were placed while others were taken in."""
    latencies_s: tuple[float, ...] = ()
    """Of each ask sent by itself, from just before it was sent to its allocation."""
    steps_s: tuple[float, ...] = ()
    """Of each step of the scheduler, those of the intake among them, but none for single asks; () where that cannot be
    seen."""
    work: Work | None = None
    """For these allocations; None where that cannot be seen."""
    looks: Looks | None = None
    idle_cpu_share: float | None = None
    """Of one core, that the daemon used while nothing was to do."""
    peak_rss_bytes: int | None = None
    """Of the process with the scheduler; None where the system does not tell."""


@dataclass(frozen=True, slots=True)
class Took:
    """How long something held the loop."""

    seconds: float
    cpu_seconds: float
    """What the process computed meanwhile: on a busy machine more telling than the clock."""

    def longer(self, other: Took) -> Took:
        """The longest by each measure."""
        return Took(max(self.seconds, other.seconds), max(self.cpu_seconds, other.cpu_seconds))

    def and_then(self, other: Took) -> Took:
        return Took(self.seconds + other.seconds, self.cpu_seconds + other.cpu_seconds)

    def part(self, count: int) -> Took:
        return Took(self.seconds / count, self.cpu_seconds / count)


@dataclass(frozen=True, slots=True)
class Decisions:
    """What one run gave."""

    decisions: tuple[Took, ...]
    """Of each decision, also of refusals: all steps since the decision before, or since the ask was due."""
    longest: Took | None
    """Of single steps until all was decided, but for those that take in what the resource manager sends; None where
    that cannot be seen."""
    visits: int | None
    """Queues, nodes, allocations and choices of sets visited, for all decisions; None where that cannot be seen."""
    victims: int
    refused: int
    """Decisions to preempt no pod."""
    peak_rss_bytes: int | None


@dataclass(frozen=True, slots=True)
class Placed:
    """An allocation as it was seen from outside."""

    uuid: str
    application_id: str
    key: str
    node_id: str
    size: Size


class WrongResult(Exception):
    """The scheduler did not do what the workload is meant to make it do, so its speed means nothing."""


def check(workload: Workload, placed: Iterable[Placed], violations: Iterable[str], replaced: int) -> None:
    """Every ask that fits a node was placed as often as asked, once each, at its size; no node holds more than it has,
    and no queue more than its quota. Where not all were to be placed, those that were are enough.

    Placeholders are not there any longer, as they were `replaced`. Raises `WrongResult` with everything that is not so.
    """
    placed = list(placed)
    problems = list(violations)
    lasting = [ask for ask in (*workload.asks, *workload.replacements, *workload.single_asks) if not ask.placeholder]
    wanted = {
        (ask.application_id, ask.key, ask.size): ask.count for ask in lasting if ask.size.fits(workload.node_size)
    }
    found = Counter((one.application_id, one.key, one.size) for one in placed)
    if surplus := {one: count for one, count in found.items() if count > wanted.get(one, 0)}:
        problems.append(f"{len(surplus)} asks were placed too often, such as {next(iter(surplus))}")
    if workload.placed_max is not None:
        if len(placed) < workload.placed_max:
            problems.append(f"{len(placed)} allocations were made, and {workload.placed_max} were to be")
    elif lacking := [one for one, count in wanted.items() if count > found[one]]:
        problems.append(f"{len(lacking)} asks were placed too seldom, such as {lacking[0]}")
    if len({one.uuid for one in placed}) != len(placed):
        problems.append("a UUID was given to more than one allocation")
    if replaced != len(workload.replacements):
        problems.append(f"{replaced} placeholders were replaced by {len(workload.replacements)} asks")
    problems += _over_capacity(workload, placed)
    problems += _over_quota(workload, placed)
    if workload.result_check is not None:
        problems += workload.result_check(workload, placed)
    if problems:
        raise WrongResult("\n  ".join([f"{workload.name}: the result is wrong", *problems]))


def _over_capacity(workload: Workload, placed: Iterable[Placed]) -> list[str]:
    memory: Counter[str] = Counter()
    vcore: Counter[str] = Counter()
    for one in placed:
        memory[one.node_id] += one.size.memory
        vcore[one.node_id] += one.size.vcore
    problems = [
        f"{node_id} holds memory {memory[node_id]} and vcore {vcore[node_id]}, and has {workload.node_size}"
        for node_id in memory
        if not Size(memory[node_id], vcore[node_id]).fits(workload.node_size)
    ]
    if unknown := memory.keys() - set(workload.node_ids):
        problems.append(f"allocations on {len(unknown)} nodes that do not exist, such as {min(unknown)}")
    return problems


def _over_quota(workload: Workload, placed: list[Placed]) -> list[str]:
    used = dict.fromkeys(workload.quotas, Size(0, 0))
    for one in placed:
        path = workload.applications[one.application_id]
        while path:
            if path in used:
                used[path] = used[path].plus(one.size)
            path = path.rpartition(".")[0]
    return [
        f"{path} holds {size}, and its quota is {workload.quotas[path]}"
        for path, size in used.items()
        if not size.fits(workload.quotas[path])
    ]


def peak_rss_bytes(pid: int | str = "self") -> int | None:
    """The most memory a process has had resident so far; None where there is no /proc.

    `getrusage` will not do: it counts what the parent had when it made the process.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
