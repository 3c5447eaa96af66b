"""The list of applications with its filters, the newest first."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from schedulerd.core.language.lifecycles import TERMINAL_STATES, ApplicationState
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.daemon.admin.api.listings import is_below
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.pages.application_rows import add_application, add_rejected
from schedulerd.daemon.admin.ui.pages.head import add_head
from schedulerd.daemon.admin.ui.texts import count, visible
from schedulerd.daemon.admin.ui.view import View

PARAMS = ("name", "state", "queue", "user", "group", "namespace", "pending", "gang", "before")
ROWS_SHOWN = 50
SCANNED_MAX = 20_000
"""Applications that one page looks at; a link leads on from there."""
_A_TURN = 64

STATES = [one.value for one in ApplicationState if one not in (ApplicationState.NEW, ApplicationState.EXPIRED)]

Any_ = Application | RejectedApplication


def view(context: Context) -> Generator[None, None, View]:
    """The view: applications that were submitted before the one with the serial number `before`."""
    made = View("Applications", "applications.html")
    yield from add_head(made, context)
    params = context.params
    keeps = _filter(params.get)
    before = int(text) if (text := params.get("before", "")).isdecimal() and len(text) < 18 else None
    rows: list[Any_] = []
    last = 0
    is_more = False
    for scanned, one in enumerate(_newest_first(context, params.get("state", "").lower(), before), 1):
        if scanned % _A_TURN == 0:
            yield
        if len(rows) >= ROWS_SHOWN or scanned > SCANNED_MAX:
            is_more = True
            break
        last = one.serial
        if keeps(one):
            rows.append(one)
    made.begin("applications")
    for number, one in enumerate(rows):
        if number % 8 == 0:
            yield
        if isinstance(one, RejectedApplication):
            add_rejected(made, context, one)
        else:
            add_application(made, context, one)
    links = context.links
    kept = {name: params[name] for name in PARAMS if params.get(name) and name != "before"}
    made.fixed |= {
        "filters": {name: visible(params.get(name, "")) for name in PARAMS},
        "is_filtered": bool(kept),
        "states": STATES,
        "show_all": links.to("applications"),
        "first": links.to("applications", **kept) if before is not None else "",
        "next": links.to("applications", **kept, before=str(last)) if is_more else "",
    }
    made.put(shown=count(len(rows)))
    return made


def _newest_first(context: Context, state: str, before: int | None) -> Iterator[Any_]:
    """Living applications, or ended ones if such a state is wanted."""
    partition = context.place.partition
    is_ended = state in {one.value.lower() for one in TERMINAL_STATES}
    known: list[Any_] = list(partition.terminated.values()) if is_ended else list(partition.applications.values())
    for one in sorted(known, key=lambda one: -one.serial) if is_ended else reversed(known):
        if before is None or one.serial < before:
            yield one


def _filter(get: Callable[[str, str], str]) -> Callable[[Any_], bool]:
    name, state, queue, user = get("name", "").lower(), get("state", "").lower(), get("queue", ""), get("user", "")
    group, namespace = get("group", ""), get("namespace", "")
    pending, gang = get("pending", ""), get("gang", "")

    def keeps(one: Any_) -> bool:
        if name and name not in one.application_id.lower():
            return False
        if state and state != one.state.value.lower():
            return False
        if user and user != one.spec.user:
            return False
        if group and group not in one.spec.groups:
            return False
        if namespace and namespace != one.spec.tags.get("namespace", ""):
            return False
        if isinstance(one, RejectedApplication):
            return not (queue or pending or gang)
        if queue and not is_below(one.queue, queue):
            return False
        if pending and not (one.groups or one.awaiting_placeholder):
            return False
        return not gang or (one.gang is not None and (gang != "open" or bool(one.gang.pending)))

    return keeps
