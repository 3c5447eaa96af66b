"""The log of the process, on standard error: a JSON object per line, or text."""

from __future__ import annotations

import json
import logging
import sys
import time

from schedulerd.settings.values import LogFormat, LogLevel


class JsonFormatter(logging.Formatter):
    """The keys are those of the daemon's log: `event`, `level`, `timestamp`, `logger`."""

    def format(self, record: logging.LogRecord) -> str:
        seconds, fraction = divmod(record.created, 1)
        line = {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "timestamp": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(fraction * 1e6):06d}Z",
            "logger": record.name,
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(level: LogLevel, format_: LogFormat) -> None:
    handler = logging.StreamHandler(sys.stderr)
    if format_ is LogFormat.JSON:
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    logging.basicConfig(level=level.value.upper(), handlers=[handler], force=True)
