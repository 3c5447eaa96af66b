"""Checks the placement rules of a partition, as far as that is possible without an application."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from schedulerd.config.acl import GROUP_NAME, NAME_RULE, USER_NAME
from schedulerd.config.hierarchy import ROOT, walk
from schedulerd.config.models import QUEUE_NAME, Partition, PlacementRule, Queue
from schedulerd.config.patterns import PROGRAM_SIZE_MAX, program_size
from schedulerd.core.language.specs import RuleKind
from schedulerd.settings.problems import Finding, Path

RULES_MAX = 64
"""Of a partition, the parents of rules among them: an application that none takes is tried with each."""
NEEDS_VALUE = frozenset({RuleKind.FIXED, RuleKind.TAG})
_REGEXP_CHARACTER = re.compile(r"[\^$*+?()\[{}|]")


def check_rules(partition: Partition, root: Queue, at: Path) -> Iterator[Finding]:
    """Each rule on its own, and that the queues named by `fixed` rules exist or can be created."""
    children = {
        id(queue): {child.name.lower(): child for child in reversed(queue.queues)} for queue, _ in walk(root, at)
    }
    count = sum(len(chain(rule, ())) for rule in partition.placementrules)
    if count > RULES_MAX:
        yield (*at, "placementrules"), f"has {count} rules, with their parents; at most {RULES_MAX} are allowed"
        return
    names_known = all(queue.name for queue, _ in walk(root, at))
    sizes: list[int] = []
    for index, rule in enumerate(partition.placementrules):
        here = (*at, "placementrules", index)
        findings = list(_check_rule(rule, here, sizes))
        yield from findings
        if names_known and not findings:
            yield from _check_target(rule, root, children, here)
    if sum(sizes) > PROGRAM_SIZE_MAX:
        message = (
            f"the regular expressions of the filters have {sum(sizes)} instructions together; at most "
            f"{PROGRAM_SIZE_MAX} are allowed: repeat less, or list names"
        )
        yield (*at, "placementrules"), message


def chain(rule: PlacementRule, at: Path) -> list[tuple[PlacementRule, Path]]:
    """The rule after all its parents: in the order in which they add to the path of the queue."""
    above = [] if rule.parent is None else chain(rule.parent, (*at, "parent"))
    return [*above, (rule, at)]


def is_pattern(names: Sequence[str], form: re.Pattern[str]) -> bool:
    """Whether the list of a filter is a regular expression: a single entry that is not a name."""
    return len(names) == 1 and not form.fullmatch(names[0])


def _check_rule(rule: PlacementRule, at: Path, sizes: list[int]) -> Iterator[Finding]:
    """`sizes` gets the size of each regular expression."""
    for part, here in chain(rule, at):
        if part.name is None:
            yield (*here, "name"), f"missing; one of {', '.join(RuleKind)}"
        elif part.name in NEEDS_VALUE and not part.value:
            yield (*here, "value"), f"missing; a {part.name} rule needs one"
        elif part.name is RuleKind.FIXED:
            yield from _check_fixed_value(part, (*here, "value"))
        elif part.name is RuleKind.RECOVERY and part is not rule:
            yield (*here, "name"), "the recovery queue is a leaf; use another rule to find a parent"
        for names, form, filter_at in _lists(part, here):
            if is_pattern(names, form):
                try:
                    sizes.append(_size(names[0]))
                except ValueError as error:
                    yield (*filter_at, 0), f"neither a name ({NAME_RULE}) nor a regular expression ({error})"


def warn_filters(rule: PlacementRule, at: Path) -> Iterator[Finding]:
    """Warns of filter entries that cannot be a name: they match no user and no group."""
    for names, form, here in _lists(rule, at):
        if not is_pattern(names, form):
            for index, name in enumerate(names):
                if not form.fullmatch(name):
                    message = f"without effect: not a name ({NAME_RULE}); a regular expression must be the only entry"
                    yield (*here, index), message


def _lists(rule: PlacementRule, at: Path) -> Iterator[tuple[tuple[str, ...], re.Pattern[str], Path]]:
    """The lists `users` and `groups` of the filter, each with the pattern of a valid name."""
    yield rule.filter.users, USER_NAME, (*at, "filter", "users")
    yield rule.filter.groups, GROUP_NAME, (*at, "filter", "groups")


def _check_fixed_value(rule: PlacementRule, at: Path) -> Iterator[Finding]:
    if not all(QUEUE_NAME.fullmatch(name) for name in rule.value.split(".")):
        yield at, "not the path of a queue; write names with dots between them, like root.parent.leaf"
    elif rule.parent is not None and _is_qualified(rule.value):
        yield at, "begins with root, so it cannot be put below what the parent rule finds"


def _size(pattern: str) -> int:
    """Of a regular expression. Raises ValueError with the reason if the text is none."""
    if not _REGEXP_CHARACTER.search(pattern):
        raise ValueError("it would need one of ^ $ * + ? ( ) [ { } |")
    return program_size(pattern)


def _is_qualified(value: str) -> bool:
    return value.lower() == ROOT or value.lower().startswith(f"{ROOT}.")


def _check_target(
    rule: PlacementRule, root: Queue, children: Mapping[int, Mapping[str, Queue]], at: Path
) -> Iterator[Finding]:
    """Checks the part of the queue path that is the same for all applications: leading `fixed` rules.

    `children` has the children of each queue (by its identity) by name in lower case.
    """
    rules = chain(rule, at)
    fixed = rules[
        : next((index for index, (part, _) in enumerate(rules) if part.name is not RuleKind.FIXED), len(rules))
    ]
    if not fixed:
        return
    path = ".".join(part.value for part, _ in fixed)
    names = path.split(".")[1:] if _is_qualified(path) else path.split(".")
    here = (*fixed[-1][1], "value")
    queue = root
    for name in names:
        child = children[id(queue)].get(name.lower())
        if child is None:
            if not queue.is_parent:
                yield here, f'queue "{name}" cannot be created: "{queue.name}" is a leaf, it holds applications'
            elif not rule.create:
                yield here, f'there is no queue "{name}" below "{queue.name}"; add it, or set create: true'
            return
        queue = child
    if len(fixed) < len(rules) and not queue.is_parent:
        yield here, f'"{queue.name}" is a leaf; the rest of the rule needs a queue with parent: true'
    elif len(fixed) == len(rules) and queue.is_parent:
        yield here, f'"{queue.name}" is not a leaf; applications can only be placed in a leaf queue'
