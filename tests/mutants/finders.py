"""What has to find a mutant: simulations, a property, a test, or a story that an invariant judges."""

from __future__ import annotations

import asyncio
import inspect
import re
import traceback
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException, HypothesisWarning

from tests.kubernetes.virtual_loop import run
from tests.sim.observations import Observations
from tests.sim.simulation import EVERY_WORLD, simulate
from tests.sim.world import World
from tests.unit.core import builders

EXAMPLES_MAX = 3 * 1_500
"""Most mutants take a few dozen."""
VIRTUAL_SECONDS_MAX = 100_000.0
"""For a test on a virtual loop."""


class Found(NamedTuple):
    text: str
    """One line."""
    innermost_file: str = ""
    """Where it was raised, if something was."""


class Finder(Protocol):
    def find(self) -> Found | None:
        """What is wrong, if anything is. Nothing of it depends on chance."""


@dataclass(frozen=True)
class Simulated:
    """Simulations with faults, one after the other: so many seeds, so many moves each, in these worlds in turn.

    It does not matter which of the seeds finds something, so a history that changes does no harm.
    """

    worlds: Sequence[type[World]] = EVERY_WORLD
    says: str = ""
    """A part of what has to be found; without it, anything is enough."""
    steps: int = 200
    seeds: int = 33
    first_seed: int = 1
    is_faulty: bool = True

    def from_seed(self, first: int) -> Simulated:
        """Begins with this seed, which found it once; that saves time as long as it does."""
        return replace(self, first_seed=first)

    def find(self) -> Found | None:
        for seed in range(self.first_seed, self.first_seed + self.seeds):
            _, failure = simulate(seed, self.steps, Observations(), self.worlds, is_faulty=self.is_faulty)
            for problem in failure.problems if failure is not None else ():
                if self.says in problem:
                    lines = problem.strip().splitlines()
                    files = re.findall(r'File "([^"]+)"', problem)
                    return Found(f"seed {seed}: {lines[-1]}", files[-1] if files else "")
        return None


@dataclass(frozen=True)
class Property:
    """The check of a property, with random examples that are the same each time.

    The invariants, which a conversation checks after each step, are switched off: the reference has to find it.
    """

    check: Callable[..., object]
    examples: tuple[st.SearchStrategy[Any], ...]

    def find(self) -> Found | None:
        @settings(
            max_examples=EXAMPLES_MAX,
            phases=[Phase.generate],
            derandomize=True,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(st.tuples(*self.examples))
        def seek(drawn: tuple[Any, ...]) -> None:
            self.check(*drawn)

        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            patch.setattr(builders, "violations", lambda _: [])
            warnings.simplefilter("ignore", HypothesisWarning)  # the text of a failing example may be long
            return raised_by(seek)


@dataclass(frozen=True)
class UnitTested:
    """A test without fixtures."""

    test: Callable[[], object]

    def find(self) -> Found | None:
        return raised_by(self.test)


@dataclass(frozen=True)
class Told:
    """A story, which gives what an invariant says of it."""

    story: Callable[[], Sequence[str]]
    says: str

    def find(self) -> Found | None:
        problem = next((one for one in self.story() if self.says in one), None)
        return Found(problem) if problem is not None else None


class TestsOf:
    """All tests of the modules, with all their parameters, that need no more than fixtures of their module or its
    conftest which need nothing; coroutines on a virtual loop."""

    __test__ = False

    def __init__(self, *modules: ModuleType) -> None:
        self._modules = modules

    def __repr__(self) -> str:
        return f"the tests of {', '.join(module.__name__ for module in self._modules)}"

    def find(self) -> Found | None:
        for module in self._modules:
            for name, test in vars(module).items():
                if not name.startswith("test_"):
                    continue
                for call in self._calls(module, test):
                    found = raised_by(call)
                    if found is not None:
                        return Found(f"{name}: {found.text}", found.innermost_file)
        return None

    def _calls(self, module: ModuleType, test: Callable[..., Any]) -> Iterator[Callable[[], object]]:
        given: list[dict[str, Any]] = [{}]
        for mark in getattr(test, "pytestmark", ()):
            if mark.name != "parametrize":
                return
            given = [{**one, **more} for one in given for more in _parameters(*mark.args[:2])]
        fixtures = {}
        near = find_spec(f"{module.__package__}.conftest") and import_module(f"{module.__package__}.conftest")
        for name in inspect.signature(test).parameters.keys() - given[0].keys():
            found = getattr(module, name, None) or getattr(near, name, None)
            fixture = getattr(found, "__wrapped__", None)
            if fixture is None or inspect.signature(fixture).parameters:
                return
            fixtures[name] = fixture
        for parameters in given:
            yield partial(_play, test, fixtures, parameters)


def _parameters(names: str | Sequence[str], values: Iterable[Any]) -> list[dict[str, Any]]:
    """As `pytest.mark.parametrize` takes them."""
    split = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
    rows = (
        one.values if isinstance(one, type(pytest.param())) else one if len(split) > 1 else (one,) for one in values
    )
    return [dict(zip(split, row, strict=True)) for row in rows]


def _play(test: Callable[..., Any], fixtures: dict[str, Callable[[], Any]], parameters: dict[str, Any]) -> object:
    made = test(**{name: fixture() for name, fixture in fixtures.items()}, **parameters)
    return run(_in_time(made)) if inspect.iscoroutine(made) else made


async def _in_time(test: Coroutine[Any, Any, object]) -> object:
    async with asyncio.timeout(VIRTUAL_SECONDS_MAX):
        return await test


@dataclass(frozen=True)
class Seeds:
    """Histories of a simulation, one seed after the other."""

    play: Callable[[int], object]
    seeds: int = 50
    first_seed: int = 0

    def from_seed(self, first: int) -> Seeds:
        """Begins with this seed, which found it once; that saves time as long as it does."""
        return replace(self, first_seed=first)

    def find(self) -> Found | None:
        for seed in range(self.first_seed, self.first_seed + self.seeds):
            found = raised_by(partial(self.play, seed))
            if found is not None:
                return Found(f"seed {seed}: {found.text}", found.innermost_file)
        return None


def raised_by(call: Callable[[], object]) -> Found | None:
    try:
        call()
    except HypothesisException:
        raise
    except (Exception, BaseExceptionGroup, pytest.fail.Exception) as error:  # noqa: BLE001 broken code may fall over before it is judged
        while isinstance(error, BaseExceptionGroup):  # of a loop over rows
            error = error.exceptions[0]
        frames = traceback.extract_tb(error.__traceback__)
        return Found(repr(error).splitlines()[0][:200], frames[-1].filename)
    return None
