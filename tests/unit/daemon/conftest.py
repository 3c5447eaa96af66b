"""What several tests of the daemon put back when they are done."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture
def root_level() -> Iterator[None]:
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """For a log; how logs are written is put back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()
