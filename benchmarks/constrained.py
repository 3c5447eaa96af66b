"""The workloads `x`: asks that may run on some nodes only, and next to few of their kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from benchmarks.measurement import Placed
from benchmarks.workload import Demand, Workload

LABELS = 20
VALUES = 5
"""Of each label; a fifth of the nodes have each."""
ZONES = 10
ZONE = "zone"
SPREADS = 100


def labels(index: int) -> dict[str, str]:
    """Of the node with this number: no two labels go together."""
    found = {f"label-{label}": str(_mixed(index * LABELS + label) % VALUES) for label in range(LABELS)}
    return {**found, ZONE: f"zone-{index % ZONES}"}


def _mixed(number: int) -> int:
    """A number that looks like any other."""
    number = (number ^ (number >> 16)) * 0x45D9F3B & 0xFFFFFFFF
    number = (number ^ (number >> 16)) * 0x45D9F3B & 0xFFFFFFFF
    return number ^ (number >> 16)


def demand(number: int, most: int) -> Demand:
    """The one with this number. One label has to have a value, two others must not: 4 in 31 nodes will do."""
    wanted, rest = number % LABELS, number // LABELS
    value, rest = rest % VALUES, rest // VALUES
    first = (wanted + 1 + rest % 9) % LABELS
    second = (wanted + 10 + rest // 9 % 10) % LABELS
    third = rest // 90 % VALUES
    return Demand(
        wanted=(f"label-{wanted}", str(value)),
        unwanted=((f"label-{first}", str(third)), (f"label-{second}", str(third))),
        service=f"service-{number % SPREADS}",
        scope=ZONE,
        most=most,
    )


def misplaced(workload: Workload, placed: Iterable[Placed]) -> Iterator[str]:
    """What runs where it must not."""
    demands = {ask.key: ask.demand for ask in workload.asks}
    attributes = {node_id: labels(index) for index, node_id in enumerate(workload.node_ids)}
    together: Counter[tuple[str, str]] = Counter()
    for one in placed:
        wish, found = demands[one.key], attributes[one.node_id]
        assert wish is not None
        key, value = wish.wanted
        if found[key] != value or any(found[name] == unwanted for name, unwanted in wish.unwanted):
            yield f"{one.key} is on {one.node_id}, which is not what it demands"
        together[wish.service, found[wish.scope]] += 1
        if together[wish.service, found[wish.scope]] > wish.most:
            yield f"more than {wish.most} of {wish.service} are in {found[wish.scope]}"
