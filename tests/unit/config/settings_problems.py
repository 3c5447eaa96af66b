"""What is wrong with settings, as their user is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schedulerd.config import SettingsInvalid, load_settings


def problems(
    flags: dict[str, Any] | None = None, environ: dict[str, str] | None = None, file: Path | None = None
) -> list[str]:
    with pytest.raises(SettingsInvalid) as raised:
        load_settings(flags or {}, environ or {}, file)
    assert str(raised.value).splitlines()[1:] == [f"  {problem}" for problem in raised.value.problems]
    return [str(problem) for problem in raised.value.problems]
