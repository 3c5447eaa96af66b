"""What is said about the build that runs."""

from __future__ import annotations

from importlib.machinery import ModuleSpec

import pytest

import schedulerd
from schedulerd import build
from schedulerd.core import cycle


def test_it_is_known_whether_the_core_is_compiled() -> None:
    assert (build.core_build() == "interpreted") is (cycle.__file__.endswith(".py"))


@pytest.mark.parametrize(
    ("origin", "core", "text"),
    [
        ("/x/cycle.py", "interpreted", schedulerd.__version__),
        ("/x/cycle.cpython-311-x86_64-linux-gnu.so", "compiled", f"{schedulerd.__version__} (compiled core)"),
    ],
)
def test_it_is_said_where_it_is_not_as_usual(
    monkeypatch: pytest.MonkeyPatch, origin: str, core: str, text: str
) -> None:
    monkeypatch.setattr(build, "find_spec", lambda _: ModuleSpec("cycle", None, origin=origin))
    assert build.core_build() == core
    assert build.description() == text
