"""Static files at `/`: regular files inside the directory, with a policy of their own, behind all other paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedulerd.daemon.admin.web_root import POLICY
from tests.loops import each_row
from tests.rest.world import World, open_settings
from tests.unit.daemon.yunikorn.cluster import get, request


@pytest.fixture
def world(tmp_path: Path) -> World:
    root = tmp_path / "web"
    (root / "assets" / "config").mkdir(parents=True)
    (root / "index.html").write_text("<html>page</html>")
    (root / "assets" / "config" / "envconfig.json").write_text("{}")
    (root / "inside").symlink_to(root / "index.html")
    (root / "outside").symlink_to(tmp_path / "secret")
    (root / "livez").write_text("not this")
    (tmp_path / "secret").write_text("what nobody may read")
    (tmp_path / "web-next").mkdir()
    (tmp_path / "web-next" / "secret").write_text("what nobody may read")
    return World(open_settings(web_root=root))


@pytest.mark.parametrize("path", ["/", "/index.html", "/inside"])
def test_the_page(world: World, path: str) -> None:
    answer = get(world, path)
    assert (answer.status, answer.text) == (200, "<html>page</html>")
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_its_other_files(world: World) -> None:
    answer = get(world, "/assets/config/envconfig.json")
    assert (answer.status, answer.json) == (200, {})
    assert answer.headers["content-type"].startswith("application/json")


@each_row(
    "path",
    [
        "/outside",
        "/../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/assets/../../secret",
        "/../web-next/secret",
        "/assets/",
        "/assets",
        "/nope",
        "//etc/passwd",
        "/%00",
        "/" + "a" * 5_000,
    ],
)
def test_nothing_else(world: World, path: str) -> None:
    answer = get(world, path)
    assert answer.status in (404, 400, 307)
    assert "what nobody may read" not in answer.text


def test_it_takes_no_path_of_the_daemon(world: World) -> None:
    assert get(world, "/livez").json["status"] == "ok"
    assert get(world, "/ws/v1/clusters").json == []
    assert get(world, "/ws/v1/nope").text == "404 page not found\n"


def test_it_only_reads(world: World) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert request(world, method, "/index.html").status == 405
