"""What the process is doing: the stacks of its threads and tasks, as text."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from itertools import islice

from schedulerd.daemon.yunikorn.pacing import Breathe

TASKS_MAX = 200
"""Tasks that are shown; a client can make one with each call it opens."""

FRAMES_MAX = 30
"""Lines of code that are shown of a thread or task, the innermost ones."""


async def stacks(breathe: Breathe) -> str:
    """The text, in the order of a goroutine dump: a head, then the frames, then an empty line."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = []
    for ident, frame in sys._current_frames().items():
        found.append(f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame, FRAMES_MAX))}")
    del frame
    tasks = asyncio.all_tasks()
    for task in islice(tasks, TASKS_MAX):
        await breathe()
        frames = task.get_stack(limit=FRAMES_MAX)
        lines = (f'  File "{one.f_code.co_filename}", line {one.f_lineno}, in {one.f_code.co_name}\n' for one in frames)
        found.append(f"task {task.get_name()} of {task.get_coro()!r}:\n{''.join(lines)}")
    if len(tasks) > TASKS_MAX:
        found.append(f"{len(tasks) - TASKS_MAX} more tasks are not shown\n")
    return "\n".join(found)
