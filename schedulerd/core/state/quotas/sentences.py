"""Sentences for people about blocking rules, in events, dumps and messages."""

from __future__ import annotations

from schedulerd.amounts import amount_text
from schedulerd.core.state.quotas.rules import Blocked, BlockedBy


def sentence(blocked: Blocked) -> str:
    """Names the rule, and the numbers that show why it blocks."""
    queue, name = blocked.queue.written, blocked.resource
    used, promised, asked, most = (
        amount_text(name, amount) for amount in (blocked.used, blocked.promised, blocked.asked, blocked.max)
    )
    whole = f"{name} {used} used + {promised} promised to gangs + {asked} for the whole gang"
    match blocked.by:
        case BlockedBy.QUOTA:
            reserved = f" + {promised} reserved for others" if blocked.promised else ""
            return f"quota of queue {queue}: {name} {used} used{reserved} + {asked} asked is more than max {most}"
        case BlockedBy.GANG_QUOTA:
            return f"quota of queue {queue}: {whole} is more than max {most}"
        case BlockedBy.MAX_APPLICATIONS:
            return f"queue {queue} runs {used} applications, its maxapplications is {most}"
        case BlockedBy.LIMIT:
            return f"{_limit(blocked)}: {name} {used} used + {asked} asked is more than maxresources {most}"
        case BlockedBy.GANG_LIMIT:
            return f"{_limit(blocked)}: {whole} is more than maxresources {most}"
        case BlockedBy.LIMIT_MAX_APPLICATIONS:
            return f"{_limit(blocked)}: {used} applications run, maxapplications is {most}"


def _limit(blocked: Blocked) -> str:
    kind = "group" if blocked.is_group else "user"
    return f"limit of {kind} {blocked.account!r} in {blocked.queue.written}"
