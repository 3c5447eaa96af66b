"""Applications that do not schedule, are rejected, or have ended."""

from __future__ import annotations

from schedulerd.sentences.words import clock_time, duration, sentence

NO_QUEUE = "no queue is named"
"""How `names_no_queue` begins, by which a resource manager recognizes this cause in the text of a rejection."""
_SUCH_AS = "; set one, such as "


def inactive(what: str, state: str) -> str:
    """`what`: application or resource manager."""
    return f"its {what} is {state}: nothing is placed in that state"


def start_order(first: str, state: str, left: str = "") -> str:
    """Another application of a `stateaware` queue has to start first, which is in this state; '' if that is not known.
    `left`: until the next one may start."""
    why = "its queue starts one application at a time"
    if not first:
        return f"{why}: another application has to start first"
    if state == "Starting":
        return f"{why}: the next one may start when {first} runs" + (f", in {left} at the latest" if left else "")
    blocked = f"; {first} is blocked, and the next one may start in {left}" if left else ""
    return f"{why}: application {first} has to start first{blocked}"


def queue_is_missing(path: str) -> str:
    """The queue that an application names is not there."""
    return f"queue {path} does not exist"


def names_no_queue(example: str) -> str:
    """No rule gives a queue to an application that names none; `example`: a leaf queue, or ''."""
    return NO_QUEUE + (f"{_SUCH_AS}{example}" if example else "")


def set_label(reason: str) -> str:
    """What helps the user of a pod whose application was rejected because it `names_no_queue`."""
    example = reason.removeprefix(NO_QUEUE).removeprefix(_SUCH_AS).partition(";")[0]
    return "set the label queue" + (f", such as {example}" if example else "")


CORRECT_LABEL = "correct its label queue"


def is_missing_queue(reason: str, named: str) -> bool:
    """Whether the reason of a rejection is that the queue of this name does not exist."""
    return bool(named) and reason.startswith((queue_is_missing(named), queue_is_missing(f"root.{named}")))


def rejected_pod(name: str, at_ns: int, reason: str, advice: str, left_ns: int) -> str:
    """A pod whose application was rejected at this wall time, as sentences; it is tried again after `left_ns`."""
    again = f"tried again in {duration(left_ns)}"
    said = f"{name} was rejected at {clock_time(at_ns)[:5]}: {reason.rstrip('.')}."
    return f"{said} {sentence(f'{advice}; {again}' if advice else again)}"
