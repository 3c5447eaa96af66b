"""Books with a node and an application."""

from __future__ import annotations

import pytest

from schedulerd.client.books import Books
from tests.unit.client.book_keeping import a_node, accepted, an_application


@pytest.fixture
def books() -> Books:
    """A node and an application, both accepted."""
    found = Books()
    found.sent_node(a_node())
    found.sent_application(an_application())
    nodes, applications = accepted()
    found.heard_nodes(nodes)
    found.heard_applications(applications)
    return found
