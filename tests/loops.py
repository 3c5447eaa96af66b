"""Tests that are loops: over seeds, of which `make test` plays an eighth, over examples, and over the rows of a table.

A loop is one test, or one for each of `make test`, `make check` and `make nightly`: thousands of parameters cost more
than what is tested. What fails is named in the note of the exception.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest
from hypothesis import settings

MANY_EXAMPLES = 100
"""Of a property that says nothing else, in `make nightly`."""

Test = Callable[..., Any]


def each_seed(usual: Iterable[int], *, few: int | None = None, nightly: Iterable[int] = ()) -> Callable[[Test], Test]:
    """Plays the test, which takes a `seed`, with all of these, one after the other, up to the first that fails.

    `make test` plays the first `few` of the usual ones, by default an eighth, and `make check` all of them.
    """
    listed = tuple(usual)
    end = few if few is not None else -(-len(listed) // 8)
    groups = [
        pytest.param(listed[:end], id="few"),
        pytest.param(listed[end:], id="more", marks=pytest.mark.slow),
        pytest.param(tuple(nightly), id="nightly", marks=pytest.mark.nightly),
    ]
    parameters = [group for group in groups if group.values != ((),)]

    def decorate(test: Test) -> Test:
        def play(played: Sequence[int], **others: Any) -> None:
            for seed in played:
                _call(test, f"seed {seed}", {**others, "seed": seed})

        return pytest.mark.parametrize("played", parameters)(_instead(test, play, {"seed"}, "played"))

    return decorate


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], ids: Iterable[str] | Callable[[Any], object] | None = None
) -> Callable[[Test], Test]:
    """Plays the test with every row, and names all that fail. Takes what `pytest.mark.parametrize` takes.

    For tests of microseconds that leave nothing behind in their fixtures.
    """
    split = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
    table = [_row(one, split) for one in rows]
    assert table, f"no rows of {names}"
    if ids is not None:
        labels = (" ".join(str(ids(one)) for one in values.values()) for _, values in table) if callable(ids) else ids
        table = [(label, values) for label, (_, values) in zip(labels, table, strict=True)]

    def decorate(test: Test) -> Test:
        def play(**others: Any) -> None:
            failures: list[BaseException] = []
            for label, values in table:
                try:
                    _call(test, label, others | values)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 all rows that fail are told at the end
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)

        return _instead(test, play, set(split))

    return decorate


def examples(usual: int) -> int:
    """How many examples of a property are drawn that has not as many as the others: the same part of these as of
    those, which is a tenth in `make test`, a third in `make check`, and all in `make nightly`."""
    return max(1, usual * settings().max_examples // MANY_EXAMPLES)


def _row(row: Any, names: list[str]) -> tuple[str, dict[str, Any]]:
    label = repr(row)
    if isinstance(row, type(pytest.param())):
        assert not row.marks, f"a row of a loop has no marks: {row}"
        label, row = str(row.id or row.values), row.values
    elif len(names) == 1:
        row = (row,)
    return label, dict(zip(names, row, strict=True))


def _call(test: Test, label: str, arguments: dict[str, Any]) -> None:
    try:
        test(**arguments)
    except (Exception, pytest.fail.Exception) as error:
        error.add_note(label)
        raise


def _instead(test: Test, play: Test, removed: set[str], *added: str) -> Test:
    """`play` as pytest has to see it: with the name and marks of the test, and other parameters."""
    assert not inspect.iscoroutinefunction(test), "coroutines have a loop of their own each"
    kind = inspect.Parameter.KEYWORD_ONLY
    kept = [one for name, one in inspect.signature(test).parameters.items() if name not in removed]
    assert len(kept) + len(removed) == len(inspect.signature(test).parameters), f"{test.__name__} takes no {removed}"

    @wraps(test)
    def played(*instance: object, **arguments: Any) -> None:
        play(**arguments) if not instance else play(self=instance[0], **arguments)

    played.__signature__ = inspect.Signature([*kept, *(inspect.Parameter(one, kind) for one in added)])  # type: ignore[attr-defined]
    return played
