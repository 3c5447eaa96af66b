"""Logging of the process: one line per event, on one stream for all loggers.

Our own lines (structlog) and those of the standard library's loggers (uvicorn, grpc, asyncio, warnings) go through the
same formatter. The level of the standard library's root logger applies to both, so it can be changed at run time.
"""

from __future__ import annotations

import logging
import sys
from typing import Literal, TextIO, TypeAlias, get_args

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from schedulerd.daemon.runtime.log_writer import LogWriter
from schedulerd.daemon.runtime.redaction import loggable

LogFormat: TypeAlias = Literal["json", "console"]
LevelName: TypeAlias = Literal["debug", "info", "warning", "error"]

LEVELS: tuple[LevelName, ...] = get_args(LevelName)
_LEADING_KEYS = ("timestamp", "level", "logger", "event")


class LogLevel:
    """The least severe level that is written; `/loglevel` shows and changes it."""

    def get(self) -> str:
        return logging.getLevelName(logging.getLogger().level).lower()

    def set(self, level: str) -> None:
        """Changes the level of all loggers at once. Raises `ValueError` for a name that is not in `LEVELS`."""
        if level not in LEVELS:
            raise ValueError(f"log level {level!r} does not exist; allowed are {', '.join(LEVELS)}")
        logging.getLogger().setLevel(level.upper())


def configure(
    level: str = "info", log_format: LogFormat = "json", stream: TextIO | None = None, *, by_thread: bool = False
) -> LogLevel:
    """Sets up logging for the whole process and returns the handle to its level; a later call replaces an earlier one.

    Lines go to `stream` (default: stderr): time in UTC as RFC 3339, level, logger, event, then the event's own keys and
    values. `json` writes one object per line; `console` is for people and shows tracebacks over several lines. With
    `by_thread` a thread writes the lines (`log_writer`); `stream` must have a file descriptor then. Raises `ValueError`
    for an unknown level or format, before anything is changed.
    """
    if log_format not in get_args(LogFormat):
        raise ValueError(f"log format {log_format!r} does not exist; allowed are {', '.join(get_args(LogFormat))}")
    log_level = LogLevel()
    log_level.set(level)
    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *common, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    target = stream if stream is not None else sys.stderr
    handler: logging.Handler = LogWriter(target.fileno()) if by_thread else logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*common, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _without_secrets,
                *_renderers(log_format, colors=target.isatty()),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.captureWarnings(True)
    return log_level


def flush() -> None:
    """Waits until all lines are written, for a bounded time. Call it before the process is ended at once."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def _renderers(log_format: LogFormat, *, colors: bool) -> list[Processor]:
    if log_format == "console":
        return [structlog.dev.ConsoleRenderer(colors=colors, sort_keys=False)]
    return [structlog.processors.format_exc_info, _lead_with_what_matters, structlog.processors.JSONRenderer()]


def _without_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {key: loggable(value) for key, value in event.items()}


def _lead_with_what_matters(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {key: event.pop(key) for key in _LEADING_KEYS if key in event} | dict(event)
