"""The settings that `docs/security.md` shows are settings, and do what it says of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schedulerd.config import load_settings
from schedulerd.daemon.access.identity import Identities
from tests.unit.daemon.certificates import URI, named

TESTS = Path(__file__).parents[2]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
TEXT = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
TLS = TESTS / "contract" / "tls"


class Client:
    """One whose certificate has this URI, or common name."""

    def __init__(self, name: str) -> None:
        self._certificate = named("", (URI, name)) if "://" in name else named(name)

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_pem_cert": [self._certificate]}


@pytest.mark.parametrize(
    ("name", "may", "may_not"),
    [
        ("shim.prod.svc", ["prod"], ["prod-2", "dev-a", ""]),
        ("spiffe://cluster/ns/dev/sa/shim", ["dev-", "dev-a"], ["dev", "prod", ""]),
        ("operator", ["prod", "dev-a", "anything", ""], []),
        ("somebody", [], ["prod", "dev-a", "anything", ""]),
    ],
)
def test_the_example_lets_in_the_users_it_names(tmp_path: Path, name: str, may: list[str], may_not: list[str]) -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.M | re.S)
    file = tmp_path / "settings.yaml"
    file.write_text(re.sub(r"/tls/[\w.-]+", str(TLS / "ca.pem"), example))
    identities = Identities(load_settings({}, {}, file).rm_identities)
    assert identities.visible([*may, *may_not], Client(name)) == may


def test_the_example_for_the_command_line_can_be_read() -> None:
    (pairs,) = re.findall(r"`SCHEDULERD_RM_IDENTITIES`: `([^`]+)`", TEXT)
    tls = dict.fromkeys(("tls_cert_file", "tls_key_file", "tls_client_ca_file"), TLS / "ca.pem")
    wanted = {"shim.prod.svc": ("prod",), "operator": ("*",)}
    assert load_settings(tls, {"SCHEDULERD_RM_IDENTITIES": pairs}).rm_identities == wanted


def test_every_reader_of_a_text_from_outside_has_a_bound_a_time_and_tests_that_exist() -> None:
    table = TEXT[TEXT.index("| text | reader | bound | time | test |") :].splitlines()[2:]
    rows = [line.strip("| ").split(" | ") for line in table if line.startswith("|")]
    assert len(rows) > 10
    for row in rows:
        assert len(row) == 5, row
        named = NAMED.findall(row[-1])
        assert named, row
        for path, name in named:
            assert f"def {name}(" in (TESTS / path).read_text(encoding="utf-8"), row
