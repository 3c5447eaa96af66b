"""Pages of a state that a daemon reaches after hours or with thousands of nodes, made without one, in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

pytest.importorskip("playwright", reason="the extra dev installs it")

from playwright.sync_api import Browser, Page, Route, expect

import schedulerd.daemon.admin.ui as ui_package
from schedulerd.daemon.admin.ui.history import SAMPLE_SECONDS, SAMPLES_MAX, Sample
from tests.ui.browser import CHROMIUM, Tabs, chromium, tabs
from tests.ui.test_browser import CHECKS
from tests.unit.daemon.admin.ui.test_node_map import a_cluster_of
from tests.unit.daemon.admin.ui.ui_world import UiWorld

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no chromium: apt-get install chromium")

ORIGIN = "http://localhost:9080"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_STATIC = Path(ui_package.__file__).with_name("static")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def made(world: UiWorld, path: str, samples: int = 0) -> str:
    """The HTML of a page with so many samples of the history: made in another thread, as this one has a loop."""

    async def act(client: httpx.AsyncClient) -> str:
        (partition,) = world.sources.scheduler.cluster.partitions()
        for number in range(samples):
            await world.sources.history.sample()
            kept = world.sources.history._samples[partition.rm_id, partition.name]
            at_ns = int(number * SAMPLE_SECONDS * 1e9)
            kept[-1] = Sample(at_ns, 1, number % 977, number, (number * 1_000 // samples,))
        return (await client.get(path)).text

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(world.run, act).result()


def opened(window: Tabs, html: str, path: str = "/ui/") -> Page:
    """The page in a browser that gets it with its style sheet and scripts, and no stream."""
    page = window.context.new_page()

    def answer(route: Route) -> None:
        name = Path(route.request.url.partition("?")[0]).name
        file = _STATIC / name
        if file.is_file():
            route.fulfill(body=file.read_bytes(), content_type=_TYPES[file.suffix])
        elif name == "stream":
            route.fulfill(body="retry: 60000\n\n", content_type="text/event-stream")
        else:
            route.fulfill(body=html, content_type="text/html; charset=utf-8")

    page.route(f"{ORIGIN}/**", answer)
    page.goto(f"{ORIGIN}{path}")
    return page


def test_a_history_of_six_hours_is_drawn_to_its_end(browser: Browser) -> None:
    html = made(UiWorld(), "/ui/", SAMPLES_MAX)
    with tabs(browser, ORIGIN) as window:
        page = opened(window, html)
        expect(page.locator("#h-history")).to_have_text("Last 6 hours")
        drawn = page.evaluate(
            "[...document.querySelectorAll('path.line')].map((one) => one.getBBox()).map((b) => [b.x + b.width, b.y])"
        )
        assert [round(right) for right, _ in drawn] == [600, 600]
        assert round(drawn[0][1]) == 0  # the newest sample is the highest
        expect(page.locator(".axis")).to_have_text("00:0103:0105:59")
        assert window.problems == []


def test_the_drawing_of_many_nodes_leads_to_racks_and_has_contrast(browser: Browser) -> None:
    html = made(UiWorld(a_cluster_of(5_000, 40)), "/ui/nodes")
    for scheme in ("light", "dark"):
        with tabs(browser, ORIGIN, color_scheme=scheme, viewport={"width": 1280, "height": 860}) as window:
            page = opened(window, html, "/ui/nodes")
            for kind in ("labels", "contrast"):
                assert page.evaluate(CHECKS, kind) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= 1280
            lengths = page.evaluate("[...document.querySelectorAll('.floor')].map((one) => one.getTotalLength())")
            assert lengths == [5_000]
            style = page.evaluate(
                "((one) => [one.stroke, one.vectorEffect])(getComputedStyle(document.querySelector('.floor')))"
            )
            track = page.evaluate("getComputedStyle(document.querySelector('.shades .s0')).backgroundColor")
            assert style == [track, "none"]  # as wide as a square, and of the shade of an empty node
            page.get_by_role("link", name="rack-077").click()
            assert page.url == f"{ORIGIN}/ui/nodes?rack=rack-077"
            assert window.problems == []
