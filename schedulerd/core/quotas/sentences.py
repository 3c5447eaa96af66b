"""Sentences for people about blocking rules, in events, dumps and messages."""

from __future__ import annotations

from schedulerd.core.quotas.rules import Blocked, BlockedBy


def sentence(blocked: Blocked) -> str:
    """Names the rule, and the numbers that show why it blocks."""
    queue, name, used, most = blocked.queue.written, blocked.resource, blocked.used, blocked.max
    match blocked.by:
        case BlockedBy.QUOTA:
            reserved = f" + {blocked.promised} reserved for others" if blocked.promised else ""
            return (
                f"quota of queue {queue}: {name} {used} used{reserved} + {blocked.asked} asked is more than max {most}"
            )
        case BlockedBy.GANG_QUOTA:
            return (
                f"quota of queue {queue}: {name} {used} used + {blocked.promised} promised to gangs + {blocked.asked} "
                f"for the whole gang is more than max {most}"
            )
        case BlockedBy.MAX_APPLICATIONS:
            return f"queue {queue} runs {used} applications, its maxapplications is {most}"
        case BlockedBy.LIMIT:
            asked = f"{name} {used} used + {blocked.asked} asked"
            return f"{_limit(blocked)}: {asked} is more than maxresources {most}"
        case BlockedBy.GANG_LIMIT:
            asked = f"{name} {used} used + {blocked.promised} promised to gangs + {blocked.asked} for the whole gang"
            return f"{_limit(blocked)}: {asked} is more than maxresources {most}"
        case BlockedBy.LIMIT_MAX_APPLICATIONS:
            return f"{_limit(blocked)}: {used} applications run, maxapplications is {most}"


def _limit(blocked: Blocked) -> str:
    kind = "group" if blocked.is_group else "user"
    return f"limit of {kind} {blocked.account!r} in {blocked.queue.written}"
