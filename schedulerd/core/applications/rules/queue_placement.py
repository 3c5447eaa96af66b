"""The queue of a new application: the placement rules in order, then `root.default`, then the recovery queue.

A rule names a queue, or does not match. The queue must be a leaf that is neither draining nor stopped, and to which the
user may submit. If the rule may create queues, it can also be a new one below a parent to which the user may submit.
Otherwise the next rule is tried. If no rule takes an application that names no queue, and no ACL refused it, it goes to
`root.default`, if that is such a leaf. One that must be accepted goes to the recovery queue at last.

The application is rejected at once if a rule names a queue with an invalid name or below a leaf, or if a parent rule
names a leaf (SEMANTICS I22). Queue names ignore case; reasons show them as written (SEMANTICS I15).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from schedulerd.core.language.ask_tags import tag
from schedulerd.core.language.checks import LISTED_MAX, Mistake, shown, some
from schedulerd.core.language.commands import NewApplication
from schedulerd.core.language.facts.fact import RejectCode
from schedulerd.core.language.specs import QUEUE_NAME, QUEUE_NAME_FORM, FilterSpec, RuleKind, RuleSpec
from schedulerd.core.state.model.queue import Queue
from schedulerd.sentences.applications import names_no_queue, queue_is_missing

FORCE_CREATE_TAG = "application.create.force"
RECOVERY_QUEUE = "@recovery@"
DEFAULT_QUEUE = "root.default"
"""Takes applications that name no queue and that no rule takes."""
PROVIDED_ONLY = (RuleSpec(RuleKind.PROVIDED),)
"""The rules if there are no placement rules."""

LEAVES_LOOKED_FOR_AMONG = 200
"""Maximum number of queues visited to name some leaf queues in a sentence."""

LEVELS_MAX = 100
"""Maximum depth of the queue tree, including root, so that walks along a path stay cheap."""

NAMES_LENGTH_MAX = 4_096
"""Maximum number of characters of user and groups together where placement rules have regular expressions. With the
largest allowed expressions, matching takes 40 ms in the worst case; with usual ones, microseconds."""

Matches: TypeAlias = Callable[[str, str], bool]
"""Whether the first argument, a regular expression, matches anywhere in the second, a text."""

_DOT = "_dot_"
_PATH_LENGTH_MAX = 300
"""Characters of a path that a sentence shows as it is."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The leaf queue to use: `queue` itself, or the last of `create`, which are created below it, each in the one
    before.

    The names in `create` are as written.
    """

    queue: Queue
    create: tuple[str, ...] = ()
    unused: str = ""
    """Why the queue that the application names is not the one; empty if it is, or if the application names none."""

    @property
    def path(self) -> str:
        """Of the leaf."""
        return ".".join([self.queue.path, *(name.lower() for name in self.create)])


@dataclass(frozen=True, slots=True)
class _NoMatch:
    reason: str
    missing: str = ""
    """The path that the rule names, if there is no such queue."""


def place_application(
    root: Queue, rules: tuple[RuleSpec, ...], application: NewApplication, matches: Matches
) -> Placement | Mistake:
    """The queue for an application, or the mistake with what each rule said.

    With the tag `application.create.force` an application that runs already is never refused: if no rule takes it, it
    goes to `root.@recovery@`, where no ACL or quota applies, until its pods are completed.
    """
    found = _by_rules(root, rules or PROVIDED_ONLY, application, matches)
    if isinstance(found, Mistake) and is_forced(application):
        existing = root.children.get(RECOVERY_QUEUE)
        if existing is not None:
            return Placement(existing, unused=found.reason)
        return Placement(root, create=(RECOVERY_QUEUE,), unused=found.reason)
    return found


def is_forced(application: NewApplication) -> bool:
    """Whether the application runs already and so must be accepted despite the checks of new work."""
    return application.tags.get(FORCE_CREATE_TAG, "").lower() == "true"


def _by_rules(
    root: Queue, rules: tuple[RuleSpec, ...], application: NewApplication, matches: Matches
) -> Placement | Mistake:
    if not application.user:
        return Mistake(RejectCode.EMPTY_ID, "ugi.user is empty; an application belongs to a user")
    length = len(application.user) + sum(map(len, application.groups))
    if length > NAMES_LENGTH_MAX and any(rule.has_pattern for rule in rules):
        return Mistake(
            RejectCode.INVALID_FIELD,
            f"ugi: the names of the user and the {len(application.groups)} groups have {length} characters together; "
            f"at most {NAMES_LENGTH_MAX} are allowed where placement rules have regular expressions",
        )
    tried: list[str] = []
    missing = ""
    code = RejectCode.NOT_PLACED
    for at, rule in enumerate(rules, start=1):
        path = _path(root, rule, application, matches)
        found = _target(root, path, application) if isinstance(path, str) else path
        if not isinstance(found, _NoMatch | Mistake):
            return replace(found, unused=_why_unused(root, application, found, at, rule, tried))
        if isinstance(found, Mistake):
            if found.code is not RejectCode.ACCESS_DENIED:
                reason = f"queueName {shown(application.queue)}: rule {at} ({rule.kind}): {found.reason}"
                return Mistake(found.code, reason)
            code = found.code
        elif rule.kind is RuleKind.PROVIDED:
            missing = missing or found.missing
        tried.append(f"rule {at} ({rule.kind}): {found.reason}")
    if code is RejectCode.NOT_PLACED and not application.queue.strip() and root.find(DEFAULT_QUEUE) is not None:
        found = _target(root, DEFAULT_QUEUE, application)
        if isinstance(found, Placement):
            return found
        tried.append(f"{DEFAULT_QUEUE}: {found.reason}")
    if code is RejectCode.NOT_PLACED and (missing or not application.queue.strip()):
        said = f"{queue_is_missing(missing)}; leaf queues are {_leaves(root)}" if missing else ""
        said = said or _no_queue(root, application)
        more = tried[1:] if rules == PROVIDED_ONLY else tried
        return Mistake(code, f"{said}; {some(more, '; ')}" if more else said)
    return Mistake(
        code, f"queueName {shown(application.queue)}: no placement rule takes the application; {some(tried, '; ')}"
    )


def _why_unused(
    root: Queue, application: NewApplication, found: Placement, at: int, rule: RuleSpec, tried: Sequence[str]
) -> str:
    """Why the queue that the application names is not the one that the rule gives; empty if it is."""
    named = application.queue.strip().lower()
    if not named or _uses_the_name(rule) or found.path in (named, f"{root.name}.{named}"):
        return ""
    before = f": {some(tried, '; ')}" if tried else ""
    return f"queueName {shown(application.queue)} is not used{before}; rule {at} ({rule.kind}) takes the application"


def _uses_the_name(rule: RuleSpec) -> bool:
    """The rule, or one of its parent rules, places by queueName."""
    return rule.kind is RuleKind.PROVIDED or (rule.parent is not None and _uses_the_name(rule.parent))


def _path(root: Queue, rule: RuleSpec, application: NewApplication, matches: Matches) -> str | _NoMatch | Mistake:
    """The full path of the queue that the rule names."""
    if not _passes(rule.filter, application, matches):
        return _NoMatch(f"its filter excludes user {shown(application.user)}")
    name = _named(rule, application)
    if isinstance(name, _NoMatch):
        return name
    is_full = f"{name.lower()}.".startswith(f"{root.name}.")
    if is_full and rule.kind is not RuleKind.USER:
        path = name
    else:
        above = root.name
        if rule.parent is not None:
            parent = _path(root, rule.parent, application, matches)
            if isinstance(parent, _NoMatch):
                return _NoMatch(f"its parent rule ({rule.parent.kind}): {parent.reason}")
            if isinstance(parent, Mistake):
                return Mistake(parent.code, f"its parent rule ({rule.parent.kind}): {parent.reason}")
            queue = root.find(parent)
            if queue is not None and queue.is_leaf:
                return Mistake(
                    RejectCode.NOT_PLACED,
                    f"its parent rule ({rule.parent.kind}) names {shown(parent)}, which is a leaf; no queue can be "
                    "below it, and no later rule is tried",
                )
            above = parent
        element = name if rule.kind is RuleKind.FIXED else name.replace(".", _DOT)
        path = f"{above}.{element}"
    if not rule.create and root.find(path) is None:
        return _NoMatch(f"{shown(path)} does not exist, and the rule creates none", _as_written(path))
    return path


def _named(rule: RuleSpec, application: NewApplication) -> str | _NoMatch:
    match rule.kind:
        case RuleKind.PROVIDED:
            return application.queue.strip() or _NoMatch("queueName is empty")
        case RuleKind.USER:
            return application.user
        case RuleKind.FIXED:
            return rule.value
        case RuleKind.TAG:
            value = tag(application.tags, rule.value)
            return value or _NoMatch(f"the application has no tag {rule.value!r}")
        case RuleKind.RECOVERY:
            return _NoMatch("only for applications that have to be taken")


def _passes(filter_: FilterSpec, application: NewApplication, matches: Matches) -> bool:
    if not filter_.users and not filter_.groups:
        return True
    if filter_.is_user_pattern:
        named = matches(filter_.users[0], application.user)
    else:
        named = application.user in filter_.users
    if not named and filter_.is_group_pattern:
        named = any(matches(filter_.groups[0], group) for group in application.groups)
    elif not named:
        own = frozenset(application.groups)
        named = any(group in own for group in filter_.groups)
    return named is filter_.allow


def _target(root: Queue, path: str, application: NewApplication) -> Placement | _NoMatch | Mistake:
    """The placement in the queue of this path, or why it is not possible."""
    queue, missing = root, path.split(".")[1:]
    while missing and missing[0].lower() in queue.children:
        queue = queue.children[missing.pop(0).lower()]
    if queue.name == RECOVERY_QUEUE or any(name.lower() == RECOVERY_QUEUE for name in missing):
        return _NoMatch(f"{shown(path)} cannot be named; it is for applications that have to be taken")
    if not missing and not queue.is_leaf:
        return _NoMatch(f"{queue.written} is a parent queue; applications go to leaf queues: {_leaves(queue)}")
    if missing:
        mistake = _cannot_create(queue, missing, path)
        if mistake is not None:
            return mistake
    if (reason := closed_because(queue)) is not None:
        return _NoMatch(reason)
    mistake = access_mistake(queue, application.user, application.groups)
    return mistake or Placement(queue, create=tuple(missing))


def closed_because(queue: Queue) -> str | None:
    """Why the queue takes no new applications; None if it does."""
    if queue.name == RECOVERY_QUEUE:
        return f"{queue.written} is for applications that have to be taken"
    if queue.draining:
        return f"{queue.written} is draining: it is no longer in the queue file"
    if (stopped := queue.stopped_by()) is not None:
        return f"{stopped.written} is stopped by an operator: it takes no new applications"
    return None


def access_mistake(queue: Queue, user: str, groups: tuple[str, ...]) -> Mistake | None:
    """Why a user may not submit to the queue; None if they may."""
    if queue.may_submit(user, groups):
        return None
    return Mistake(
        RejectCode.ACCESS_DENIED,
        f"user {shown(user)} with groups [{some(groups, show=shown)}] may not submit to {queue.written}; "
        "no submitacl or adminacl of it or a parent queue lets them in",
    )


def _cannot_create(queue: Queue, missing: list[str], path: str) -> Mistake | None:
    """Why `missing`, the queues that `path` names below `queue`, cannot be created; None if they can."""
    if queue.is_leaf:
        return Mistake(RejectCode.NOT_PLACED, f"queue {shown(path)} cannot be created: {queue.written} is a leaf")
    depth = len(queue.path_to_root) + len(missing)
    if depth > LEVELS_MAX:
        return Mistake(
            RejectCode.NOT_PLACED,
            f"queue {shown(path)} cannot be created: it would be {depth} levels deep; at most {LEVELS_MAX} are allowed",
        )
    for name in missing:
        if not QUEUE_NAME.fullmatch(name):
            return Mistake(
                RejectCode.NOT_PLACED,
                f"queue {shown(name)} cannot be created below {queue.written}: a queue name is {QUEUE_NAME_FORM}",
            )
    return None


def _takes_applications(queue: Queue) -> bool:
    is_closed = queue.draining or queue.stopped_by() is not None
    return queue.is_leaf and not is_closed and queue.name != RECOVERY_QUEUE


def _leaves(root: Queue) -> str:
    """The first few leaf queues as text. The cost is bounded."""
    found = [queue.written for queue in islice(_some_leaves(root), LISTED_MAX + 1)]
    return ", ".join(found[:LISTED_MAX]) + (" and more" if len(found) > LISTED_MAX else "") or "none"


def _some_leaves(root: Queue) -> Iterator[Queue]:
    seen = islice(root.walk(), LEAVES_LOOKED_FOR_AMONG)
    return (queue for queue in seen if _takes_applications(queue))


def _no_queue(root: Queue, application: NewApplication) -> str:
    """Why an application that names no queue has none, with a leaf queue that it may name."""
    may_submit = (one for one in _some_leaves(root) if one.may_submit(application.user, application.groups))
    example = next(may_submit, None)
    return names_no_queue(example.written if example is not None else "")


def _as_written(path: str) -> str:
    """A path in a sentence: quoted if it is long or is none."""
    is_one = len(path) <= _PATH_LENGTH_MAX and all(map(QUEUE_NAME.fullmatch, path.split(".")))
    return path if is_one else shown(path)
