"""How a mutant gets into the running core: functions get other code, for as long as a `with` lasts.

It is the code of the function itself that is changed, so every importer, table and bound method gets the broken one.
No source text is looked for: a mutant names functions as objects, which tools rename, mypy checks and imports need.
What no longer fits fails loudly: a replacement with other parameters, a comparison that is not there exactly once.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol, TypeAlias

By: TypeAlias = Callable[..., Any]
"""What is done instead: gets the original, which can be called, and then the arguments."""


class DoesNotFit(Exception):
    """The core is not any longer what the mutant was made for."""


class Change(Protocol):
    @property
    def place(self) -> str:
        """What is changed, as a dotted path."""

    def put_in(self) -> Calls:
        """Whoever entered it has a broken core until it is left; how often the broken part was called."""


class Calls:
    """A change that is in force while this is entered, and how often it took effect."""

    def __init__(self, *replacements: tuple[FunctionType, By]) -> None:
        self.count = 0
        self._replacements = replacements
        self._stack = ExitStack()

    def __enter__(self) -> Calls:
        for function, by in self._replacements:
            self._stack.enter_context(_replaced(function, self._counted(by)))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _counted(self, by: By) -> By:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            return by(*arguments, **named)

        return counted


@dataclass(frozen=True)
class Replaced:
    """The function is another one."""

    function: Callable[..., Any]
    by: By

    @property
    def place(self) -> str:
        return _path(self.function)

    def put_in(self) -> Calls:
        function = _plain(self.function)
        _check_parameters(function, self.by)
        return Calls((function, self.by))


@dataclass(frozen=True)
class Within:
    """While the function runs, one that it calls, directly or not, is another one."""

    function: Callable[..., Any]
    called: Callable[..., Any]
    by: By

    @property
    def place(self) -> str:
        return f"{_path(self.called)} in {_path(self.function)}"

    def put_in(self) -> Calls:
        depth = 0

        def entered(original: By, *arguments: Any, **named: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                return original(*arguments, **named)
            finally:
                depth -= 1

        def called(original: By, *arguments: Any, **named: Any) -> Any:
            if not depth:
                return original(*arguments, **named)
            calls.count += 1
            return self.by(original, *arguments, **named)

        _check_parameters(_plain(self.called), self.by)
        calls = _Within((_plain(self.function), entered), (_plain(self.called), called))
        return calls


class _Within(Calls):
    """Counts for itself."""

    def _counted(self, by: By) -> By:
        return by


@dataclass(frozen=True)
class Compares:
    """One comparison of the function compares otherwise: the only one that uses all of these names."""

    function: Callable[..., Any]
    uses: tuple[str, ...]
    becomes: str
    """The operator."""

    @property
    def place(self) -> str:
        return f"comparison of {' and '.join(self.uses)} in {_path(self.function)}"

    def put_in(self) -> Calls:
        function = _plain(self.function)
        changed = _recompiled(function, self._change)
        return Calls((function, lambda _, *arguments, **named: changed(*arguments, **named)))

    def _change(self, tree: ast.AST) -> None:
        found = [one for one in ast.walk(tree) if isinstance(one, ast.Compare) and set(self.uses) <= _names(one)]
        if len(found) != 1 or len(found[0].ops) != 1:
            raise DoesNotFit(f"{self.place} is there {len(found)} times")
        becomes = ast.parse(f"a {self.becomes} b", mode="eval").body
        assert isinstance(becomes, ast.Compare)
        if type(found[0].ops[0]) is type(becomes.ops[0]):
            raise DoesNotFit(f"{self.place} is {self.becomes} already")
        found[0].ops = becomes.ops


@dataclass(frozen=True)
class Constant:
    """A name of a module stands for something else there."""

    module: ModuleType
    name: str
    value: Any

    @property
    def place(self) -> str:
        return f"{self.module.__name__}.{self.name}"

    def put_in(self) -> Calls:
        if not hasattr(self.module, self.name):
            raise DoesNotFit(f"there is no {self.place}")
        return _Constant(self)


class _Constant(Calls):
    """Nobody can tell how often it is read."""

    def __init__(self, constant: Constant) -> None:
        super().__init__()
        self.count = 1
        self._constant = constant

    def __enter__(self) -> Calls:
        module, name = self._constant.module, self._constant.name
        self._stack.callback(setattr, module, name, getattr(module, name))
        setattr(module, name, self._constant.value)
        return self


# What is done instead ------------------------------------------------------------------------------------------------


def nothing(original: By, *arguments: Any, **named: Any) -> None:
    """Does nothing."""


def gives(value: Any) -> By:
    """Gives this, whatever it is asked."""
    return lambda original, *arguments, **named: value


def left_out(function: Callable[..., Any], step: Callable[..., Any]) -> Within:
    """While the function runs, this step of it does nothing."""
    return Within(function, step, nothing)


def getter(owner: type, name: str) -> Callable[..., Any]:
    """The function of a property."""
    found = inspect.getattr_static(owner, name)
    assert isinstance(found, property)
    assert found.fget is not None
    return found.fget


@contextmanager
def while_(thing: Any, **other: Any) -> Iterator[None]:
    """Attributes of a thing are other ones for a moment."""
    before = {name: getattr(thing, name) for name in other}
    for name, value in other.items():
        setattr(thing, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(thing, name, value)


# Functions -----------------------------------------------------------------------------------------------------------


@contextmanager
def _replaced(function: FunctionType, by: By) -> Iterator[None]:
    code = function.__code__
    original = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    original.__kwdefaults__ = function.__kwdefaults__

    def instead(*arguments: Any, **named: Any) -> Any:
        return by(original, *arguments, **named)

    function.__code__ = _calling(instead, code)
    try:
        yield
    finally:
        function.__code__ = code


def _calling(instead: By, code: CodeType) -> CodeType:
    """Code that calls this and nothing else; without globals, which are those of the core."""

    def template(*arguments, **named):  # type: ignore[no-untyped-def]
        instead = "HERE"
        return instead(*arguments, **named)  # type: ignore[operator]

    if code.co_freevars:
        raise DoesNotFit(f"{code.co_qualname} is a closure")
    consts = tuple(instead if one == "HERE" else one for one in template.__code__.co_consts)
    return template.__code__.replace(co_consts=consts, co_name=code.co_name, co_qualname=code.co_qualname)


def _plain(function: Callable[..., Any]) -> FunctionType:
    if not isinstance(function, FunctionType):
        raise DoesNotFit(f"{function} is not a function in Python")
    return function


def _path(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _check_parameters(function: FunctionType, by: By) -> None:
    """Raises DoesNotFit if the function can be called as the other cannot."""
    parameters = inspect.signature(function).parameters.values()
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = {one.name: None for one in parameters if one.kind is one.KEYWORD_ONLY}
    try:
        inspect.signature(by).bind(None, *positional, **named)
    except TypeError as error:
        raise DoesNotFit(f"{_path(function)} is called otherwise: {error}") from None


def _recompiled(function: FunctionType, change: Callable[[ast.AST], None]) -> Callable[..., Any]:
    """A function like this one, with its syntax tree changed."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    change(tree)
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    module = compile(ast.fix_missing_locations(tree), function.__code__.co_filename, "exec", dont_inherit=True)
    code = next(one for one in module.co_consts if isinstance(one, CodeType) and one.co_name == function.__name__)
    changed = FunctionType(code, function.__globals__, function.__name__, function.__defaults__)
    changed.__kwdefaults__ = function.__kwdefaults__
    return changed


def _names(tree: ast.AST) -> set[str]:
    names = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}
    return names | {one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute)}
