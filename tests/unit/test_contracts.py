"""The contracts of `pyproject.toml` fail when a floor is broken, each by itself.

An import that is forbidden is added to the graph of all imports, not to a file: building the graph once is what takes
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import pytest
from grimp import ImportGraph, build_graph
from importlinter import configuration
from importlinter.application import use_cases
from importlinter.contracts.layers import Layer, LayersContract
from importlinter.domain.contract import Contract, registry

import schedulerd

FILE = Path(schedulerd.__file__).parents[1] / "pyproject.toml"

ONLY = {
    "Floors of the core": ("schedulerd.core.cycle", "schedulerd.core.scheduler"),
    "No feature of the core calls": ("schedulerd.core.gangs.handlers", "schedulerd.core.nodes.handlers"),
    "Floors of the state": ("schedulerd.core.state.ledger", "schedulerd.core.state.alarm_events"),
    "Decide, then commit": ("schedulerd.core.gangs.rules", "schedulerd.core.state.ledger"),
    "The model is state": ("schedulerd.core.state.model", "schedulerd.core.state.pending.rules"),
    "The core is pure": ("schedulerd.core.cycle", "time"),
}
"""By the beginning of its name, of each contract about the core: an import that breaks this one alone."""


@cache
def contracts() -> list[Contract]:
    configuration.configure()
    options = use_cases.read_user_options(config_filename=str(FILE))
    use_cases._register_contract_types(options)
    return [
        registry.get_contract_class(one["type"])(one["name"], options.session_options, one)
        for one in options.contracts_options
    ]


@cache
def graph() -> ImportGraph:
    return build_graph("schedulerd", include_external_packages=True)


def broken_by(importer: str, imported: str, among: list[Contract]) -> list[str]:
    """The names of those of the contracts that fail when `importer` imports `imported`."""
    broken = []
    for contract in among:
        changed = deepcopy(graph())  # for each contract, because a check changes it
        changed.add_import(importer=importer, imported=imported)
        if not contract.check(changed, verbose=False).kept:
            broken.append(contract.name)
    return broken


def upward(contract: LayersContract) -> Iterator[tuple[str, str]]:
    """Imports that the contract forbids: from each floor one floor up, and between those that are independent."""
    layers: list[Layer] = contract.layers  # type: ignore[assignment]  # a descriptor without types
    for container in contract.contract_options["containers"]:
        floors = [
            sorted({f"{container}.{one.name}" for one in layer.module_tails} & graph().modules) for layer in layers
        ]
        for above, below in pairwise([floor for floor in floors if floor]):
            yield from product(below, above[:1])
            yield from product(below[:1], above[1:])
        for floor, layer in zip(floors, layers, strict=True):
            if layer.is_independent:
                yield from pairwise(floor)


def test_no_floor_may_import_the_one_above_it() -> None:
    of_layers = [one for one in contracts() if isinstance(one, LayersContract)]
    assert len(of_layers) >= 4  # packages, rooms of the daemon, floors of the core and of the state
    for contract in of_layers:
        imports = list(upward(contract))
        assert len(imports) >= len(contract.contract_options["layers"]) - 1
        assert [one for one in imports if not broken_by(*one, [contract])] == [], contract.name


@pytest.mark.parametrize("begin", ONLY)
def test_each_contract_about_the_core_finds_what_no_other_one_finds(begin: str) -> None:
    assert [name.startswith(begin) for name in broken_by(*ONLY[begin], contracts())] == [True]


def test_no_contract_about_the_core_is_left_out() -> None:
    names = [
        one.name
        for one in contracts()
        if any(
            str(module).startswith("schedulerd.core")
            for key in ("containers", "modules", "source_modules")
            for module in one.contract_options.get(key, ())
        )
    ]
    assert [name for name in names if not name.startswith(tuple(ONLY))] == []
