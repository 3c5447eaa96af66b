"""Tasks that run beside a block, and whose failure is a failure of the shim."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

Fail = Callable[[Exception], None]
"""Ends the shim with this error."""


@contextlib.asynccontextmanager
async def beside(fail: Fail, *actions: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs the actions until the block ends."""

    def ended(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            fail(error)

    tasks = [asyncio.create_task(action) for action in actions]
    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
