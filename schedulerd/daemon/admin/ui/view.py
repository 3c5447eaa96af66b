"""What a page shows, as plain texts, and what has changed since an earlier view of it.

A view has single texts and lists of rows. The name of a value is that of an element in the template; `NAME@ATTRIBUTE`
is an attribute of it. The stream sends the same values, so the browser only has to put them where they belong.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from schedulerd.daemon.admin.ui.texts import row_key, visible
from schedulerd.daemon.runtime.json_stream import JsonWriter, Listed

Fields: TypeAlias = dict[str, str]

_JSON = JsonWriter(json.dumps, ", ", ": ")


class Row(NamedTuple):
    """A row of a list."""

    key: str
    """Is the same in the next view for the same thing, and different for different things."""
    fields: Fields


class NoFields(dict[str, str]):
    """Fields of the row that a template shows as the pattern for new rows: every one is empty."""

    def __missing__(self, name: str) -> str:
        return ""


class View:
    """The values of a page. Everything that is put in is made visible, so that no page has to think of it."""

    def __init__(self, title: str, template: str) -> None:
        self.title = visible(title)
        self.template = template
        self.texts: Fields = {}
        self.lists: dict[str, list[Row]] = {}
        self.fixed: dict[str, Any] = {}
        """What a template needs and no stream sends: filters, links to further pages. Names are made visible where they
        are put in."""

    @cached_property
    def form(self) -> str:
        """Stands for what must be the same for a stream to be able to change the page; otherwise it has to be loaded
        again. To be asked for when the view is complete."""
        return row_key(json.dumps([self.template, sorted(self.lists), sorted(self.texts), self.fixed], default=str))

    def put(self, **texts: str) -> None:
        """Texts of single elements; `NAME__ATTRIBUTE` for an attribute."""
        for name, text in texts.items():
            self.texts[name.replace("__", "@")] = _shown(name, text)

    def begin(self, name: str) -> None:
        """Begins a list, which may stay empty."""
        self.lists.setdefault(name, [])

    def add(self, name: str, key: str, /, **fields: str) -> None:
        """Adds a row to a list."""
        row = Row(key, {field.replace("__", "@"): _shown(field, text) for field, text in fields.items()})
        self.lists.setdefault(name, []).append(row)


def _shown(name: str, text: str) -> str:
    """The text made visible. The data of a path is ours, and a part of it draws another line than the whole."""
    return text if name.endswith("__d") else visible(text)


def whole(view: View) -> Generator[None, None, bytes]:
    """The data of an event with everything of a view."""
    return (yield from _joined({"t": view.texts}, {name: (rows, True) for name, rows in view.lists.items()}))


def changes(old: View, new: View) -> Generator[None, None, bytes]:
    """The data of an event with what is different in `new`; empty if nothing is. Both have the same form."""
    texts = {name: text for name, text in new.texts.items() if old.texts.get(name) != text}
    lists = {}
    for name, rows in new.lists.items():
        before = {row.key: row.fields for row in old.lists[name]}
        yield
        changed = [row for row in rows if before.get(row.key) != row.fields]
        is_moved = [row.key for row in old.lists[name]] != [row.key for row in rows]
        if changed or is_moved:
            lists[name] = (rows if is_moved else changed, is_moved)
            if is_moved:
                same = {row.key for row in rows if before.get(row.key) == row.fields}
                lists[name] = ([Row(row.key, {}) if row.key in same else row for row in rows], True)
        yield
    return (yield from _joined({"t": texts} if texts else {}, lists)) if texts or lists else b""


def _joined(head: dict[str, Any], lists: dict[str, tuple[list[Row], bool]]) -> Generator[None, None, bytes]:
    """As JSON: `o` says that the rows are all rows of the list, in order; a row without fields is as it was."""
    all_rows = {name: {"o": is_all, "r": Listed(rows)} for name, (rows, is_all) in lists.items()}
    return (yield from _JSON.whole({**head, "l": all_rows} if lists else head))
