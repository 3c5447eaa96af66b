"""A blocking rule in words."""

from __future__ import annotations

from schedulerd.core.state.quotas.rules import Blocked
from schedulerd.sentences import quotas


def sentence(blocked: Blocked) -> str:
    """Names the rule, and the amounts that show why it blocks."""
    return quotas.rule(
        blocked.by.value,
        blocked.queue.written,
        blocked.resource,
        used=blocked.used,
        promised=blocked.promised,
        asked=blocked.asked,
        most=blocked.max,
        account=blocked.account,
        is_group=blocked.is_group,
    )
