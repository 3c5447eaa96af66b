"""The slow references are shown to bite: the core is broken on purpose, and the properties find it by themselves.

The invariants, which a conversation checks after every step, are switched off for it: they are shown to bite in
`tests.sim.test_invariants_find.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from schedulerd.core import commit
from schedulerd.core.decide import reload
from schedulerd.core.decide.shares import application_key, queue_key
from schedulerd.core.handlers import configuration
from schedulerd.core.model import application as application_module
from schedulerd.core.model import queue as queue_module
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.application import Application
from schedulerd.core.model.parent_entity import ParentEntity
from schedulerd.core.model.queue import Queue
from schedulerd.core.quotas import rules
from schedulerd.core.quotas.rules import Blocked
from schedulerd.core.resources import Items, Limits, Resources
from schedulerd.core.specs import QueueSpec
from tests.property.story import plans, several_trees
from tests.property.test_next_ask import check_next_ask
from tests.property.test_reloads import check_lining_up_anew, check_reloads, check_same_file, files, reload_plans
from tests.property.test_usage import check_quotas, check_usage
from tests.unit.core import builders

pytestmark = pytest.mark.interpreted

FREE, CONFIGURE, ASSESS, LINE_UP = commit.free, Queue.configure, reload.assess, Application.enqueue_all
BLOCKED_BY_QUOTA = rules.blocked_by_quota


def without_guarantee(*arguments: Any, **named: Any) -> Any:
    priority, allocated, _, *others = arguments
    return queue_key(priority, allocated, Resources(), *others, **named)


def without_priority(properties: Any, _: Any, *others: Any) -> Any:
    return application_key(properties, None, *others)


def off_by_one(queue: Queue, items: Items, own: Items = ()) -> Blocked | None:
    name = Limits({name: most + 1 for name, most in queue.max.items()}).exceeded_by(queue.allocated, items)
    return BLOCKED_BY_QUOTA(queue, items, own) if name is not None else None


def free_but_for_a_ledger(allocation: Allocation) -> None:
    ledger = allocation.application.usage_ledgers[-1]
    FREE(allocation)
    ledger.usage.add(allocation.request_class.items)


def free_but_for_the_root(allocation: Allocation) -> None:
    root = allocation.application.partition.root
    FREE(allocation)
    root.allocated.add(allocation.request_class.items)


def configure_but_for_max(queue: Queue, spec: QueueSpec) -> None:
    """As a file that is merged instead of taken at its word."""
    CONFIGURE(queue, replace(spec, max=Limits({**queue.max, **spec.max})))


def configure_but_for_limits(queue: Queue, spec: QueueSpec) -> None:
    CONFIGURE(queue, replace(spec, limits=queue.limits or spec.limits))


def always_changed(*arguments: Any) -> Any:
    return replace(ASSESS(*arguments), changed=True)


def line_up_backwards(application: Application) -> None:
    application.serial = -application.serial
    LINE_UP(application)


EXAMPLES_MAX = 1_000
"""Most breaks take some ten; which examples are drawn depends on what else is imported."""
Check = Callable[[Any, Any], None]
BREAKS: dict[str, tuple[Check, object, str, Any]] = {
    "queues keep their place": (check_next_ask, ParentEntity, "rekey", lambda *_: None),
    "priorities are not shown": (check_next_ask, ParentEntity, "show_priority", lambda *_: None),
    "queues are ordered by usage alone": (check_next_ask, queue_module, "queue_key", without_guarantee),
    "applications are not ordered by priority": (
        check_next_ask,
        application_module,
        "application_key",
        without_priority,
    ),
    "whoever wants to starts": (check_next_ask, Queue, "admit_next", lambda *_: None),
    "quotas are off by one": (check_quotas, rules, "blocked_by_quota", off_by_one),
    "headroom is that of the queue itself": (check_quotas, rules, "headroom", lambda q: q.max.left(q.allocated)),
    "freed quota wakes nobody": (check_quotas, Queue, "unblock_where_quota_allows", lambda _: []),
    "limits hold for nobody": (check_quotas, rules, "blocked_by_user_limits", lambda *_: None),
    "limits of an earlier file hold": (check_quotas, Queue, "configure", configure_but_for_limits),
    "a ledger is not given back": (check_usage, commit, "free", free_but_for_a_ledger),
    "the root is not given back": (check_usage, commit, "free", free_but_for_the_root),
    "groups are not counted": (check_usage, application_module, "group_of", lambda *_: ""),
    "applications run for ever": (check_usage, commit, "retire", lambda *_: None),
    "what the file has no longer still holds": (check_reloads, Queue, "configure", configure_but_for_max),
    "queues that are gone do not drain": (check_reloads, Queue, "set_draining", lambda *_: None),
    "the same file is a new one": (check_same_file, configuration, "assess", always_changed),
    "lining up anew turns the order round": (check_lining_up_anew, Application, "enqueue_all", line_up_backwards),
}


def strategies_for(check: Check) -> tuple[st.SearchStrategy[Any], ...]:
    return (files(), reload_plans) if check is check_reloads else (several_trees, plans)


@pytest.mark.parametrize(("check", "owner", "name", "broken"), BREAKS.values(), ids=BREAKS.keys())
def test_a_property_finds_broken_code(
    check: Check, owner: object, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builders, "violations", lambda _: [])
    monkeypatch.setattr(owner, name, broken)
    one_failure = settings(max_examples=EXAMPLES_MAX, phases=[Phase.generate], report_multiple_bugs=False)
    seek = one_failure(given(*strategies_for(check))(check))
    with pytest.raises(AssertionError):
        seek()
