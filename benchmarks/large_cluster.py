"""The workload `f`: a cluster of 100,000 nodes, and a million asks of 5,000 applications in a thousand leaf queues.

Queues stand three levels deep. Those above the leaves have quotas: the smallest is used up when a tenth of what is
asked for below is placed, so some are full long before the run ends, and others never.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.workload import Ask, Size, Workload

NODE = Size(memory=1_000, vcore=100)
ATTRIBUTES = {"si/rackname": 8, "si/zone": 8}
SIZES = tuple(Size(memory=10 * memory, vcore=vcore) for vcore in (1, 2, 3, 4) for memory in (1, 2, 3, 4, 5))
QUOTA_PERCENT = (10, 20, 30, 40, 50)
"""Of what is asked for below a queue of the second level, in turn. That is 30 % of all, and a fifth is to be placed."""


def f(nodes: int = 100_000, branches: int = 10, asks_each: int = 200, applications_per_leaf: int = 5) -> Workload:
    """Each queue has so many `branches` and each application asks for every size as often, a multiple of 20 in all.

    Raises `ValueError` for another number.
    """
    if asks_each % len(SIZES):
        raise ValueError(f"{asks_each} asks are no multiple of {len(SIZES)}")
    each = Size(0, 0)
    for size in SIZES:
        each = each.plus(size, asks_each // len(SIZES))
    quotas = _quotas(branches, Size(0, 0).plus(each, branches * applications_per_leaf))
    leaves = [f"root.{top}.{middle}.{leaf}" for top, middle, leaf in _paths(branches)]
    applications = {
        f"app-{at:04d}-{number}": leaf for number in range(applications_per_leaf) for at, leaf in enumerate(leaves)
    }
    asks = tuple(
        Ask(application_id, f"ask-{round_:03d}-{at:04d}", SIZES[(round_ + at) % len(SIZES)])
        for round_ in range(asks_each)
        for at, application_id in enumerate(applications)
    )
    return Workload(
        "f",
        _queue_file(branches, quotas),
        nodes,
        NODE,
        applications,
        asks,
        pending_first=True,
        placed_max=len(asks) // 5,
        quotas=quotas,
        node_attributes=ATTRIBUTES,
    )


def _paths(branches: int) -> Iterator[tuple[str, str, str]]:
    """Names of the queues on the way to each leaf."""
    for top in range(branches):
        for middle in range(branches):
            for leaf in range(branches):
                yield f"d{top}", f"t{middle}", f"q{leaf}"


def _quotas(branches: int, asked: Size) -> dict[str, Size]:
    """Of both levels above the leaves, by full name; so much is `asked` for below each queue of the second."""
    quotas: dict[str, Size] = {}
    for top in range(branches):
        whole = Size(0, 0)
        for middle in range(branches):
            percent = QUOTA_PERCENT[(top + middle) % len(QUOTA_PERCENT)]
            quota = Size(asked.memory * percent // 100, asked.vcore * percent // 100)
            quotas[f"root.d{top}.t{middle}"] = quota
            whole = whole.plus(quota)
        quotas[f"root.d{top}"] = whole
    return quotas


def _queue_file(branches: int, quotas: Mapping[str, Size]) -> str:
    lines = ["partitions:", "  - name: default", "    queues:", "      - name: root", '        submitacl: "*"']
    lines.append("        queues:")
    for top in range(branches):
        lines += _with_quota(10, f"d{top}", quotas[f"root.d{top}"])
        for middle in range(branches):
            lines += _with_quota(14, f"t{middle}", quotas[f"root.d{top}.t{middle}"])
            lines += [f"{' ' * 18}- name: q{leaf}" for leaf in range(branches)]
    return "\n".join(lines) + "\n"


def _with_quota(indent: int, name: str, quota: Size) -> list[str]:
    """A queue in YAML down to where its children begin."""
    return [
        f"{' ' * indent}- name: {name}",
        f"{' ' * indent}  resources: {{max: {{memory: {quota.memory}, vcore: {quota.vcore}m}}}}",
        f"{' ' * indent}  queues:",
    ]
