"""Which build of the package this is: the core is interpreted, or machine code made of the same sources."""

from __future__ import annotations

from importlib.util import find_spec

from schedulerd import __version__


def core_build() -> str:
    """`interpreted` or `compiled`, found without importing the core."""
    spec = find_spec("schedulerd.core.cycle")
    assert spec is not None
    assert spec.origin is not None
    return "interpreted" if spec.origin.endswith(".py") else "compiled"


def description() -> str:
    """For people: the version, and how the core was built where that is not as usual."""
    return __version__ if core_build() == "interpreted" else f"{__version__} ({core_build()} core)"
