"""Takes dropped state apart: empties its containers, one element at a time.

Objects of the model refer to each other in cycles (an allocation to its node, the node to its allocations), which
reference counts alone never free. Once the containers in each cycle are empty, they do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, TypeAlias

Container: TypeAlias = "dict[Any, Any] | list[Any] | deque[Any]"


def clear_stepwise(*containers: Container) -> Iterator[None]:
    """Removes one element at each step. What the element refers to is not taken apart."""
    for container in containers:
        take = container.popitem if isinstance(container, dict) else container.pop
        while container:
            take()
            yield
