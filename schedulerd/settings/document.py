"""YAML 1.2 text as plain data in which every value knows its line.

Scalars stay the text that was written (`10`, `0x10`, `1e3` and `"10"` are all texts): what a value means is decided by
the model that reads it, so that a quantity like `010` or a name like `true` is never changed on its way. Only null is
told apart. Mistakes that other readers let pass are problems here: a key given twice, two documents in one text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from schedulerd.settings.problems import PROBLEMS_MAX, Finding, Path, Problem, format_path, shorten

Data: TypeAlias = "str | list[Data] | dict[str, Data] | None"

TEXT_BYTES_MAX = 1024 * 1024
"""The size of a Kubernetes ConfigMap: the largest file an operator can mount."""
VALUES_MAX = 100_000
"""How many values a text may come to once its aliases are followed; a few lines of nested aliases make billions."""
DEPTH_MAX = 200
"""How deep lists and mappings may be nested; a level of queues takes two."""

_SENTENCE_CHARACTERS_MAX = 300

_CORE_TAG = "tag:yaml.org,2002:"
_NULL_TAG = f"{_CORE_TAG}null"
_MERGE_TAG = f"{_CORE_TAG}merge"
_TEXT_TAGS = frozenset(f"{_CORE_TAG}{name}" for name in ("str", "int", "float", "bool", "timestamp", "value"))
_COLLECTION_TAGS = frozenset(f"{_CORE_TAG}{name}" for name in ("map", "seq"))


@dataclass(frozen=True, slots=True)
class Document:
    """The data of one text, the line of each of its values, and what was wrong with the text itself."""

    data: Data
    lines: Mapping[Path, int]
    problems: tuple[Problem, ...]

    def problem(self, path: Path, message: str) -> Problem:
        """A problem at `path`, with the line and the value found there (of the nearest parent if it is missing)."""
        return Problem(format_path(path), self.line(path), self._text(path), message)

    def line(self, path: Path) -> int | None:
        for length in range(len(path), -1, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return line
        return None

    def _text(self, path: Path) -> str | None:
        value: Data = self.data
        for step in path:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value if isinstance(value, str) else None


def read_document(text: str) -> Document:
    """The document in `text`; its data is None if the text is empty or cannot be read, which then is a problem."""
    if len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX:
        return _unreadable(None, f"the text is larger than {TEXT_BYTES_MAX} bytes, which is the most that is read")
    reading = _Reading()
    try:
        yaml = YAML(typ="safe", pure=True)
        yaml.Composer = _BoundedComposer
        # It would warn with lines of the text, which may be a secret. A name that is used again is what YAML allows.
        yaml.composer.warn_double_anchors = False
        node = yaml.compose(text)
        data = None if node is None else reading.value(node, ())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return _unreadable(None if mark is None else mark.line + 1, f"not valid YAML: {_sentence(error)}")
    except YAMLError as error:
        return _unreadable(None, f"not valid YAML: {_short(str(error))}")
    except (_TooDeep, RecursionError):
        return _unreadable(None, f"lists and mappings are nested too deeply; at most {DEPTH_MAX} levels are allowed")
    except _TooManyValues:
        return _unreadable(None, f"there are more than {VALUES_MAX} values, with aliases followed; make it smaller")
    document = Document(data, reading.lines, ())
    return replace(document, problems=tuple(document.problem(*finding) for finding in reading.findings))


def _unreadable(line: int | None, message: str) -> Document:
    return Document(None, {}, (Problem("", line, None, message),))


def _sentence(error: MarkedYAMLError) -> str:
    parts = [part for part in (error.context, error.problem) if part]
    return _short(" ".join(parts))


def _short(text: str) -> str:
    """The text on one line, and cut: a YAML error may quote an alias of a megabyte."""
    sentence = " ".join(text[: 2 * _SENTENCE_CHARACTERS_MAX].split())
    return sentence if len(sentence) <= _SENTENCE_CHARACTERS_MAX else f"{sentence[:_SENTENCE_CHARACTERS_MAX]}..."


class _TooManyValues(Exception):
    pass


class _TooDeep(Exception):
    pass


class _BoundedComposer(Composer):
    """Stops at the first node too many, so that the rest of the text is not read."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._nodes = self._levels = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._nodes += 1
        self._levels += 1
        # A key of a mapping is a node too, and no value.
        if self._nodes > 2 * VALUES_MAX:
            raise _TooManyValues
        if self._levels > DEPTH_MAX:
            raise _TooDeep
        node = super().compose_node(parent, index)
        self._levels -= 1
        return node


@dataclass(slots=True)
class _Reading:
    """One pass over the tree of nodes, which collects lines and findings on its way."""

    lines: dict[Path, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    _open: list[Node] = field(default_factory=list)
    _values: int = 0

    def value(self, node: Node, path: Path) -> Data:
        self._count()
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if str(node.tag) not in _COLLECTION_TAGS:
            self._find_tag(node, path)
        if self._is_inside(node, path):
            return None
        self._open.append(node)
        try:
            if isinstance(node, SequenceNode):
                return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
            return self._mapping(node, path) if isinstance(node, MappingNode) else None
        finally:
            self._open.pop()

    def _count(self) -> None:
        self._values += 1
        if self._values > VALUES_MAX:
            raise _TooManyValues

    def _is_inside(self, node: Node, path: Path) -> bool:
        """Whether an alias leads back to something that is being read, which would never end."""
        inside = any(node is parent for parent in self._open)
        if inside:
            self._find(path, "the alias is part of what it stands for; write out what is meant")
        return inside

    def _scalar(self, node: ScalarNode, path: Path) -> str | None:
        if str(node.tag) == _NULL_TAG:
            return None
        if str(node.tag) not in _TEXT_TAGS:
            self._find_tag(node, path)
        return self._whole(str(node.value), path)

    def _whole(self, text: str, path: Path) -> str:
        """The text with surrogate pairs joined: JSON writes a character above U+FFFF as two escapes."""
        if text.isascii():
            return text
        raw = text.encode("utf-16-le", "surrogatepass")
        try:
            return raw.decode("utf-16-le")
        except UnicodeDecodeError:
            half = "has an escape of half a character (U+D800 to U+DFFF); write the character, or both halves"
            self._find(path, half)
            return raw.decode("utf-16-le", "replace")

    def _find(self, path: Path, message: str) -> None:
        """Keeps one problem more than is reported, so that the caller can see that there are more."""
        if len(self.findings) <= PROBLEMS_MAX:
            self.findings.append((path, message))

    def _find_tag(self, node: Node, path: Path) -> None:
        self._find(path, f'the tag "{shorten(str(node.tag))}" is not known here; remove it')

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Data]:
        data: dict[str, Data] = {}
        for key, value, merged in self._entries(node, path):
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode):
                self._find(path, f"the key in line {line} must be a single name")
                continue
            name = self._whole(str(key.value), path)
            here = (*path, name)
            if name not in data:
                self.lines[here] = line
                data[name] = self.value(value, here)
            elif not merged:
                message = f"given twice, in lines {self.lines[here]} and {line}; give every key once"
                self._find(here, message)
        return data

    def _entries(self, node: MappingNode, path: Path) -> Iterator[tuple[Node, Node, bool]]:
        """The keys and values of a mapping: first its own, then those that `<<` merges into it (last is True)."""
        bases: list[Node] = []
        for key, value in node.value:
            self._count()
            if str(key.tag) == _MERGE_TAG:
                bases.extend(value.value if isinstance(value, SequenceNode) else [value])
            else:
                yield key, value, False
        for base in bases:
            if not isinstance(base, MappingNode):
                self._find(path, "<< must be followed by an alias of a mapping, or a list of such aliases")
            elif not self._is_inside(base, path):
                self._open.append(base)
                yield from ((key, value, True) for key, value, _ in self._entries(base, path))
                self._open.pop()
