"""The build of this package: the core is interpreted, or compiled to machine code from the same sources."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

from schedulerd import __version__


def core_build() -> str:
    """`interpreted` or `compiled`, found without importing the core."""
    spec = find_spec("schedulerd.core.cycle")
    assert spec is not None
    assert spec.origin is not None
    return "interpreted" if spec.origin.endswith(".py") else "compiled"


def description() -> str:
    """The version, with the build of the core unless it is interpreted. For people."""
    return __version__ if core_build() == "interpreted" else f"{__version__} ({core_build()} core)"


def installed_from() -> str:
    """The URL of the folder, archive or repository that this was installed from; '' if it came from an index of
    packages, or was not installed."""
    try:
        text = distribution("schedulerd").read_text("direct_url.json") or "{}"
        url = json.loads(text).get("url", "")
    except (PackageNotFoundError, OSError, ValueError, AttributeError):
        return ""
    return url if isinstance(url, str) else ""
