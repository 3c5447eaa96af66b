"""`python -m tests.compile_simulator`: machine code of the core and of the simulator's books, beside their sources.

For a copy of the project that plays many seeds, in 60 % of the time; `make soak` makes one. What is compiled is made of
the same sources and sees the same: the figures of a seed do not depend on it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[1]
CORE = ROOT / "schedulerd" / "core"
INTERPRETED: tuple[str, ...] = ("__init__.py", "alarms.py", "commands.py", "*facts.py", "resources.py", "specs.py")
INTERPRETED += ("values.py", "plan.py")
"""Of the core: values, which would gain little. `resources.py` cannot be compiled (docs/compiled.md)."""
BOOKS = (
    "tests/property/naive_constraints.py",
    "tests/sim/auditor.py",
    "tests/sim/gang_books.py",
    "tests/sim/oracle.py",
    "tests/sim/rm_memory.py",
    "tests/sim/room_books.py",
    "tests/sim/observations.py",
    "tests/sim/watch.py",
)
"""Of the simulator: what takes the longest, and has no subclasses."""


def modules() -> list[str]:
    """Paths of everything that is to be compiled."""
    core = (path for path in sorted(CORE.rglob("*.py")) if not any(path.match(name) for name in INTERPRETED))
    return [*(str(path.relative_to(ROOT)) for path in core), *BOOKS]


if __name__ == "__main__":
    sys.argv[1:] = ["--quiet", "build_ext", "--inplace"]
    options = ["--config-file", "pyproject.toml", *modules()]
    setup(name="simulator", packages=[], ext_modules=mypycify(options, opt_level="2", debug_level="0", multi_file=True))
