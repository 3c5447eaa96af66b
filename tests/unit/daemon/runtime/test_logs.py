"""Everything that is logged is one line of one format on one stream, whoever logs it."""

from __future__ import annotations

import io
import json
import logging
import re
import warnings

import pytest
import structlog

from schedulerd.daemon.runtime import logs

RFC_3339_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def test_json_is_one_object_a_line_and_leads_with_what_matters(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    structlog.stdlib.get_logger("core.scheduler.node").info("node changed", node_id="n1\nforged line", state="draining")
    (text,) = stream.getvalue().splitlines()
    line = json.loads(text)
    assert list(line) == ["timestamp", "level", "logger", "event", "node_id", "state"]
    assert RFC_3339_UTC.fullmatch(line["timestamp"])
    assert line["level"] == "info"
    assert line["logger"] == "core.scheduler.node"
    assert line["event"] == "node changed"
    assert line["node_id"] == "n1\nforged line"


def test_console_is_one_line_too_and_has_no_colours_without_a_terminal(stream: io.StringIO) -> None:
    logs.configure("info", "console", stream)
    structlog.stdlib.get_logger("core.scheduler.node").info("node changed", node_id="n1\nforged line")
    (text,) = stream.getvalue().splitlines()
    assert RFC_3339_UTC.match(text)
    assert "core.scheduler.node" in text
    assert "node_id='n1\\nforged line'" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_the_standard_librarys_loggers_write_the_same(stream: io.StringIO, log_format: logs.LogFormat) -> None:
    logs.configure("info", log_format, stream)
    logging.getLogger("grpc.aio").warning("%d connections", 3, extra={"client": "a"})
    (text,) = stream.getvalue().splitlines()
    assert "3 connections" in text
    assert "grpc.aio" in text
    assert "warning" in text
    assert "client" in text


def test_a_traceback_stays_on_the_line(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("asyncio").exception("task failed")
    (text,) = stream.getvalue().splitlines()
    line = json.loads(text)
    assert line["level"] == "error"
    assert line["exception"].endswith("ValueError: boom")


def test_warnings_are_log_lines(stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logs.configure("info", "json", stream)
        warnings.warn("careful", UserWarning, stacklevel=1)
        logging.captureWarnings(False)
    (text,) = stream.getvalue().splitlines()
    assert json.loads(text)["logger"] == "py.warnings"
    assert "careful" in json.loads(text)["event"]


def test_the_level_changes_for_all_loggers_at_once(stream: io.StringIO) -> None:
    level = logs.configure("warning", "json", stream)
    ours, theirs = structlog.stdlib.get_logger("core.scheduler"), logging.getLogger("grpc")

    def speak() -> list[str]:
        stream.seek(0)
        stream.truncate()
        ours.debug("ours")
        theirs.debug("theirs")
        return [json.loads(line)["event"] for line in stream.getvalue().splitlines()]

    assert (level.get(), speak()) == ("warning", [])
    level.set("debug")
    assert (level.get(), speak()) == ("debug", ["ours", "theirs"])
    level.set("error")
    assert (level.get(), speak()) == ("error", [])


def test_a_later_configuration_replaces_the_earlier_one(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    later = io.StringIO()
    logs.configure("info", "json", later)
    logging.getLogger("grpc").info("once")
    assert stream.getvalue() == ""
    assert len(later.getvalue().splitlines()) == 1


def test_a_level_that_does_not_exist_is_refused_and_changes_nothing(stream: io.StringIO) -> None:
    level = logs.configure("info", "json", stream)
    with pytest.raises(ValueError, match="log level 'loud' does not exist; allowed are debug, info, warning, error"):
        level.set("loud")
    assert level.get() == "info"
    with pytest.raises(ValueError, match="log format 'xml' does not exist; allowed are json, console"):
        logs.configure("debug", "xml", stream)  # type: ignore[arg-type]  # what a caller without mypy may do
    assert level.get() == "info"
