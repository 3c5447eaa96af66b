"""Compares the predicates with recorded answers of kube-scheduler 1.20.

    python -m tests.kubernetes.oracle FILE.jsonl.gz

Each line of a file is one cluster with a pod to place, as Kubernetes JSON, and what each filter plugin said of each
node (`verdicts`: plugin -> node -> code and reasons; a node that is not named passed). Exit code 1 if a code or a
reason differs, unless a rule of today's Kubernetes decides otherwise (`oracle_rules`): those are counted apart and
named. Resources that are not Kubernetes' own have no order in 1.20, and are compared as a set. Pods that have ended
(phase Succeeded or Failed) use nothing, as no scheduler is told of them; where the recorded plugins were given them all
the same, that is a rule too (`oracle_rules.ENDED_PODS`). Exit code 2 if the file cannot be read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from schedulerd.kubernetes.predicates import plugins
from schedulerd.kubernetes.predicates.node_resources_fit import is_scalar
from schedulerd.kubernetes.predicates.refusal import Refusals
from schedulerd.kubernetes.predicates.words import reasons, words_of_1_20
from tests.kubernetes.oracle_file import LINES_MAX, PASSED, Answer, Case, UnreadableFile, cluster_of, read_cases
from tests.kubernetes.oracle_rules import explains

SHOWN_MAX = 10
"""Differences that are printed."""

_INSUFFICIENT = "Insufficient "
_PLUGINS = {plugin.name: plugin for plugin in plugins.ALL}


@dataclass
class Tally:
    """Nodes judged by one plugin. What today's rules decide otherwise is not among those that agree."""

    judged: int = 0
    codes_agree: int = 0
    reasons_agree: int = 0
    otherwise: int = 0


@dataclass
class Comparison:
    clusters: int = 0
    by_plugin: dict[str, Tally] = field(default_factory=dict)
    otherwise: Counter[str] = field(default_factory=Counter)
    """Answers that a rule of today's Kubernetes decides otherwise, by rule."""
    differences: list[str] = field(default_factory=list)
    """The first of the others."""
    different: int = 0


def compare(path: Path, clusters_max: int = LINES_MAX) -> Comparison:
    """Judges the first clusters of the file. Raises UnreadableFile."""
    found = Comparison()
    for number, case in read_cases(path):
        if found.clusters == clusters_max:
            break
        found.clusters += 1
        _compare_case(number, case, found)
    if found.clusters == 0:
        raise UnreadableFile(f"{path}: no line with a cluster")
    return found


def _compare_case(number: int, case: Case, found: Comparison) -> None:
    view, pod = cluster_of(case)
    for plugin, answers in case.answers.items():
        tally = found.by_plugin.setdefault(plugin, Tally())
        for node in case.nodes:
            name = node.metadata.name
            recorded, given = in_order(answers.get(name, PASSED)), _answer(view.judge(pod, name, (_PLUGINS[plugin],)))
            tally.judged += 1
            tally.codes_agree += recorded.code == given.code
            tally.reasons_agree += recorded.reasons == given.reasons
            if recorded == given:
                continue
            rule = explains(plugin, case, node, recorded, given)
            if rule:
                tally.otherwise += 1
                found.otherwise[f"{plugin}: {rule}"] += 1
            else:
                found.different += 1
                if len(found.differences) < SHOWN_MAX:
                    where = f"line {number}: {plugin} on {name}"
                    found.differences.append(f"{where}: expected {_shown(recorded)}, not {_shown(given)}")


def _answer(refusals: Refusals) -> Answer:
    if not refusals:
        return PASSED
    return Answer(refusals[0].kind.value, tuple(reasons(refusals, words_of_1_20)))


def in_order(recorded: Answer) -> Answer:
    """1.20 names the resources that are not Kubernetes' own in any order, after all else; here it is by name."""
    scalar = [*map(_is_of_scalar, recorded.reasons), True].index(True)
    reasons = (*recorded.reasons[:scalar], *sorted(recorded.reasons[scalar:]))
    return recorded if reasons == recorded.reasons else Answer(recorded.code, reasons)


def _is_of_scalar(reason: str) -> bool:
    return reason.startswith(_INSUFFICIENT) and is_scalar(reason.removeprefix(_INSUFFICIENT))


def _shown(answer: Answer) -> str:
    return f"{answer.code} {list(answer.reasons)}" if answer.code else "no refusal"


def report(found: Comparison) -> Iterator[str]:
    yield f"{found.clusters} clusters"
    yield f"{'plugin':20} {'nodes':>8} {'codes agree':>12} {'reasons agree':>14} {'decided otherwise today':>24}"
    for name, tally in sorted(found.by_plugin.items()):
        yield f"{name:20} {tally.judged:8} {tally.codes_agree:12} {tally.reasons_agree:14} {tally.otherwise:24}"
    for rule, count in sorted(found.otherwise.items()):
        yield f"decided otherwise today: {count} times {rule}"
    yield from found.differences
    yield f"{found.different} differ" if found.different else "all others agree" if found.otherwise else "all agree"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tests.kubernetes.oracle FILE.jsonl.gz", file=sys.stderr)
        return 2
    try:
        found = compare(Path(arguments[0]))
    except UnreadableFile as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(report(found)))
    return 1 if found.different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
