"""What a pod waits for, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """What the pod waits for. The first eleven are pending states of the daemon, under the names that it says."""

    READY = "its turn"
    QUOTA_BLOCKED = "quota"
    USER_LIMIT_BLOCKED = "limit of a user or group"
    MAX_APPLICATIONS_BLOCKED = "number of applications"
    UNSCHEDULABLE = "room on a node"
    AWAITING_GANG = "a gang"
    AWAITING_PLACEHOLDER = "the end of a placeholder"
    AWAITING_PREDICATE = "an answer about a node"
    PREDICATE_FAILED = "a node that takes it"
    RESERVED = "reserved room"
    APPLICATION_INACTIVE = "its application"
    UNANSWERED = "a word of the daemon"
    """It was asked for a while ago, and nothing was said since."""
    HELD = "what keeps it from being asked for"
    """The text says it: a missing claim, a rejected application or ask."""


class Rule(Enum):
    """The kind of rule that blocks, under the names that the daemon says. The values are those of
    `schedulerd.sentences`."""

    QUOTA = "quota"
    GANG_QUOTA = "gang quota"
    MAX_APPLICATIONS = "max applications"
    LIMIT = "limit"
    GANG_LIMIT = "gang limit"
    LIMIT_MAX_APPLICATIONS = "limit max applications"


@dataclass(frozen=True, slots=True)
class Waiting:
    state: State
    is_skipped: bool = False
    """With UNSCHEDULABLE: quotas and limits leave room only for pods before it."""
    rule: Rule | None = None
    """With it: queue, resource, used, promised, asked, max, and for limits the account."""
    queue: str = ""
    resource: str = ""
    """In the names of the daemon, as are the amounts."""
    used: int = 0
    promised: int = 0
    asked: int = 0
    max: int = 0
    account: str = ""
    is_group: bool = False
    ahead: int = 0
    """Pods before it in its queue."""
    awaited_application: str = ""
    inactive: str = ""
    """State of the application or of this scheduler at the daemon."""
    node: str = ""
    victims: int = 0
    gang_state: str = ""
    """Of its gang, whose members get room together: forming, gathering or complete. What follows counts members."""
    with_room: int = 0
    needed: int = 0
    members_asked: int = 0
    text: str = ""
    """With HELD."""
    is_about_nodes: bool = False
    """With HELD: the sentence begins with the number of nodes, as kube-scheduler's does."""
    event_reason: str = ""
    """Of the event; empty for the usual one."""

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for reasons that differ in numbers only."""
        return (
            self.state,
            self.is_skipped,
            self.rule,
            self.queue,
            self.resource,
            self.account,
            self.awaited_application,
            self.inactive,
            self.node,
            bool(self.victims),
            self.gang_state,
            self.text,
        )


def held(text: str, event_reason: str = "FailedScheduling", *, is_about_nodes: bool = True) -> Waiting:
    return Waiting(State.HELD, text=text, event_reason=event_reason, is_about_nodes=is_about_nodes)


UNANSWERED = Waiting(State.UNANSWERED)
