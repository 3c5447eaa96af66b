"""What the routes that explain answer: sentences for people, and the same as data."""

from __future__ import annotations

from dataclasses import dataclass

from schedulerd.core.explain.values import ApplicationExplanation, AskExplanation, FitsFinding, QueueExplanation
from schedulerd.daemon.admin.api.models import documented


@documented
@dataclass(frozen=True, slots=True)
class AskAnswer:
    """Why an ask waits, in sentences and as data; or what has become of it, or what its resource manager says."""

    summary: list[str]
    """What its allocations wait for, a sentence each."""
    details: list[str]
    """What would change it, and all else that is known."""
    explanation: AskExplanation | None
    """None for an ask that the scheduler does not have: not yet, or no longer."""


@documented
@dataclass(frozen=True, slots=True)
class ReasonLine:
    """Pending allocations that wait for the same thing, as a sentence."""

    allocations: int
    applications: int
    sentence: str
    application: str
    """The application of an example."""
    ask: str
    """The ask of an example."""
    pod: str
    """NAMESPACE/NAME if it is of a Kubernetes pod."""


@documented
@dataclass(frozen=True, slots=True)
class ApplicationAnswer:
    """What an application waits for, in sentences and as data; or what has become of it."""

    summary: list[str]
    reasons: list[ReasonLine]
    next_ask: list[str]
    """About the ask that would be placed first."""
    explanation: ApplicationExplanation | None
    """None for an application that the scheduler does not have, or no longer."""


@documented
@dataclass(frozen=True, slots=True)
class QueueAnswer:
    """What waits in a queue and below, in sentences and as data."""

    summary: list[str]
    reasons: list[ReasonLine]
    explanation: QueueExplanation


@documented
@dataclass(frozen=True, slots=True)
class FitsAnswer:
    """Whether a supposed ask would be placed now, in sentences and as data."""

    summary: str
    details: list[str]
    finding: FitsFinding
