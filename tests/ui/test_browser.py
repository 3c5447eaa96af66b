"""The page as an operator sees it, in Debian's chromium: pages, live updates, keyboard, contrast, hostile names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="the extra dev installs it")

from playwright.sync_api import Browser, Page, expect

from tests.contract.daemon_process import DaemonProcess
from tests.ui.browser import CHROMIUM, Tabs, chromium, tabs, until
from tests.ui.screenshots import PAGES
from tests.ui.story import Story

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no chromium: apt-get install chromium")

expect.set_options(timeout=20_000)

HTML_BYTES_MAX = 60 * 1024
CHECKS = (Path(__file__).parent / "checks.js").read_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with DaemonProcess() as process:
        yield process


@pytest.fixture(scope="module")
def story(daemon: DaemonProcess) -> Iterator[Story]:
    with Story(daemon.target) as told:
        told.do(Story.morning)
        told.do(Story.noon)
        yield told


@pytest.fixture
def window(browser: Browser, daemon: DaemonProcess, story: Story) -> Iterator[Tabs]:
    """Tabs in which nothing may go wrong."""
    with tabs(browser, daemon.url) as found:
        yield found
        assert found.problems == []


def is_live(page: Page) -> None:
    """Waits until the stream of the page is open."""
    until(page, "typeof source === 'object' && source !== null && source.readyState === 1 && version !== null")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_small_labelled_and_live(window: Tabs, name: str) -> None:
    page = window.context.new_page()
    response = page.goto(PAGES[name])
    assert response is not None
    assert response.status == 200
    assert len(response.body()) < HTML_BYTES_MAX
    is_live(page)
    assert page.evaluate(CHECKS, "labels") == []
    first = page.locator("#freshness time").inner_text()
    expect(page.locator("#freshness time")).not_to_have_text(first)


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", PAGES)
def test_all_text_has_contrast(browser: Browser, daemon: DaemonProcess, story: Story, name: str, scheme: Any) -> None:
    with tabs(browser, daemon.url, color_scheme=scheme) as window:
        page = window.open(PAGES[name])
        assert page.evaluate(CHECKS, "contrast") == []
        is_dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != "rgb(255, 255, 255)"
        assert is_dark is (scheme == "dark")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_on_a_telephone(browser: Browser, daemon: DaemonProcess, story: Story, name: str) -> None:
    with tabs(browser, daemon.url, viewport={"width": 390, "height": 844}) as window:
        page = window.open(PAGES[name])
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_the_schema_needs_no_scrolling_to_the_right(
    browser: Browser, daemon: DaemonProcess, width: int
) -> None:
    with tabs(browser, daemon.url, viewport={"width": width, "height": 860}) as window:
        page = window.open("/api/v1/docs")
        expect(page.get_by_role("heading", name="GET /api/v1/queues", exact=True)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_queues_are_folded_with_the_keyboard(window: Tabs) -> None:
    page = window.open("/ui/queues")
    expect(page.locator("[data-list=queues]")).to_contain_text("notebooks")
    page.get_by_role("link", name="Fold ml").focus()
    page.keyboard.press("Enter")
    expect(page.locator("[data-list=queues]")).not_to_contain_text("notebooks")
    assert page.url.endswith("/ui/queues?fold=root.ml")
    is_live(page)
    page.get_by_role("link", name="Unfold ml").click()
    expect(page.locator("[data-list=queues]")).to_contain_text("notebooks")


def test_without_scripts_the_page_says_the_same(browser: Browser, daemon: DaemonProcess, story: Story) -> None:
    with tabs(browser, daemon.url, java_script_enabled=False) as window:
        page = window.open("/")
        assert page.url == f"{daemon.url}/ui/"
        expect(page.locator("[data-list=queues]")).to_contain_text("notebooks")
        expect(page.locator("[data-list=reasons]")).to_contain_text("User 'joe' is at its limit")
        expect(page.locator("[data-list=attention]")).to_contain_text("1 node not ready")
        expect(page.get_by_text("Nothing needs attention.")).to_be_hidden()
        page.get_by_role("link", name="Nodes", exact=True).click()
        expect(page.locator("a.sq")).to_have_count(144)
        assert window.problems == []


@pytest.mark.smoke
def test_an_application_comes_into_the_open_page(window: Tabs, story: Story) -> None:
    page = window.open("/ui/applications?name=late")
    is_live(page)
    expect(page.get_by_text("No application matches.")).to_be_visible()

    async def comes(told: Story) -> None:
        await told.app("late-comer", "root.services", 2, 1_000, 1)

    loaded = page.evaluate("performance.timeOrigin")
    story.do(comes)
    expect(page.get_by_role("link", name="late-comer")).to_be_visible()
    expect(page.get_by_text("No application matches.")).to_be_hidden()
    assert page.evaluate("performance.timeOrigin") == loaded  # it was not loaded again


def test_filters_narrow_the_lists(window: Tabs) -> None:
    page = window.open("/ui/applications")
    page.get_by_role("textbox", name="Queue", exact=True).fill("root.ml")
    page.get_by_label("Waiting only").check()
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("[data-list=applications] tr")).to_have_count(9)  # eight notebooks, and the gang
    page.get_by_role("link", name="Show all").click()
    expect(page.locator("[data-list=applications] tr").first).to_be_visible()
    page.goto("/ui/nodes?state=draining")
    expect(page.locator("a.sq")).to_have_count(2)
    page.goto("/ui/nodes?attribute=si/rackname%3Drack-6&state=not_ready")
    expect(page.locator("a.sq")).to_have_count(1)


def test_a_deep_link_explains_a_gang(window: Tabs) -> None:
    page = window.open("/ui/application?id=vision-pretrain")
    expect(page.get_by_role("heading", level=1)).to_have_text("Application vision-pretrain")
    expect(page.locator(".c.placeholder")).to_have_count(36 + 1)  # and the one of the key
    expect(page.locator(".c.waiting")).to_have_count(28 + 1)
    expect(page.locator("[data-list=chain]")).to_contain_text("nvidia.com/gpu")
    expect(page.locator("[data-list=events]")).to_contain_text("36 asks placed")
    page.get_by_role("link", name="root.ml.train").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queue root.ml.train")


def test_what_is_not_there_is_said(window: Tabs) -> None:
    page = window.context.new_page()
    for path, said in (
        ("/ui/application?id=nowhere", "application 'nowhere' is not there"),
        ("/ui/queue?path=root.x", "does not exist"),
        ("/ui/node?id=x", "is not registered"),
    ):
        response = page.goto(path)
        assert response is not None
        assert response.status == 404
        expect(page.locator("main")).to_contain_text(said)
        expect(page.get_by_role("navigation").get_by_role("link", name="Overview")).to_be_visible()
    window.problems[:] = [one for one in window.problems if "404" not in one]  # the browser notes them as errors


def test_the_theme_can_be_chosen_and_stays(window: Tabs) -> None:
    page = window.open("/ui/")
    page.get_by_role("button", name="Dark theme").click()
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert dark != "rgb(255, 255, 255)"
    page.goto("/ui/nodes")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark
    expect(page.get_by_role("button", name="Light theme")).to_be_visible()


def test_the_keyboard_is_enough(window: Tabs) -> None:
    page = window.open("/ui/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.type("llama-sft")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("llama-sft")
    page.goto("/ui/search?q=mia")
    expect(page.get_by_text("No pod, application, queue or node")).to_be_visible()
    page.goto("/ui/search?q=notebook-11-1")
    expect(page.get_by_role("heading", level=1)).to_have_text("Pod kim/notebook-11-1")


@pytest.mark.nightly
def test_eight_tabs_work_because_hidden_ones_hold_no_connection(window: Tabs) -> None:
    window.context.add_init_script(
        "window.isHidden = false; Object.defineProperty(document, 'hidden', {get: () => window.isHidden});"
        "window.hide = (is) => { window.isHidden = is; document.dispatchEvent(new Event('visibilitychange')); };"
    )
    pages = []
    for path in PAGES.values():
        page = window.open(path)
        is_live(page)
        page.evaluate("hide(true)")
        assert page.evaluate("source === null")
        pages.append(page)
    assert len(pages) >= 8
    for page in pages:
        page.evaluate("hide(false)")
        is_live(page)
        before = page.locator("#freshness time").inner_text()
        expect(page.locator("#freshness time")).not_to_have_text(before)
        page.evaluate("hide(true)")


HOSTILE = '<img src=x onerror="alert(1)"></td><script>alert(2)</script>\u202egnp.\u0007{{7*7}}&lt;'
SEEN = '<img src=x onerror="alert(1)"></td><script>alert(2)</script>gnp.{{7*7}}&lt;'


def test_hostile_names_are_text_in_pages_and_streams(window: Tabs, story: Story) -> None:
    page = window.open("/ui/applications")
    is_live(page)

    async def comes(told: Story) -> None:
        await told.app(HOSTILE, "root.services", 1, 1_000, 1, user='"><b onclick=alert(3)>')

    story.do(comes)
    link = page.locator("[data-list=applications] a[data-f=name]").first
    expect(link).to_have_text(SEEN)  # by the stream
    page.reload()
    expect(link).to_have_text(SEEN)  # by the template
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Application {SEEN}")
    expect(page.locator("[data-list=allocations] tr")).to_have_count(1)
    for path in ("/ui/events", "/ui/queue?path=root.services", "/ui/search?q=%3Cimg", "/ui/"):
        page.goto(path)
        assert page.evaluate(CHECKS, "foreign") == []


def test_no_page_loads_or_runs_anything_else(window: Tabs) -> None:
    page = window.context.new_page()
    response = page.goto("/ui/")
    assert response is not None
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p id=own style=\"color: red\">x</p>')")
    assert page.evaluate("getComputedStyle(document.getElementById('own')).color") != "rgb(255, 0, 0)"
    assert [one for one in window.problems if "Content Security Policy" in one]
    window.problems.clear()


def test_a_browser_logs_in_with_a_token(browser: Browser, tmp_path: Path) -> None:
    token = "a-token-of-the-tests-4711"
    file = tmp_path / "tokens"
    file.write_text(f"ann view {token}\n")
    with DaemonProcess("--http-tokens-file", str(file)) as daemon, tabs(browser, daemon.url) as window:
        page = window.open("/ui/events?type=app")
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        page.get_by_label("Token").fill("another-token-of-the-tests")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("none of the tokens")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("standby Nothing is scheduled here")
        assert page.url == f"{daemon.url}/ui/events?type=app"
        assert token not in page.content()
        cookie = window.context.cookies()[0]
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        page.goto("/ui/")
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        assert not any(token in line for line in daemon.lines)


def test_an_ended_session_leads_to_the_login_and_back(browser: Browser, tmp_path: Path) -> None:
    token = "a-token-of-the-tests-4711"
    file = tmp_path / "tokens"
    file.write_text(f"ann view {token}\n")
    with (
        DaemonProcess("--http-tokens-file", str(file)) as daemon,
        Story(daemon.target) as told,
        tabs(browser, daemon.url) as window,
    ):
        told.do(Story.nodes)
        page = window.open("/ui/nodes?state=schedulable")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        is_live(page)
        other = window.open("/ui/queues")
        other.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Nodes")
        assert page.url == f"{daemon.url}/ui/nodes?state=schedulable"


@pytest.mark.nightly
def test_a_page_comes_back_when_its_application_does(window: Tabs, story: Story) -> None:
    async def comes(told: Story) -> None:
        await told.app("passing", "root.services", 1, 1_000, 1)

    async def goes(told: Story) -> None:
        told.client.remove_application("passing")

    story.do(comes)
    page = window.open("/ui/application?id=passing")
    is_live(page)
    story.do(goes)
    expect(page.locator("#freshness")).to_contain_text("application 'passing' is not there")
    page.wait_for_timeout(6_000)
    expect(page.locator("#freshness")).to_contain_text("is not there")  # and not that the connection is lost
    story.do(comes)
    expect(page.locator("#freshness .problem")).to_be_hidden()
    expect(page.locator("[data-list=allocations] tr")).to_have_count(1)
    window.problems[:] = [one for one in window.problems if "404" not in one]


def test_a_lost_daemon_is_said_and_the_numbers_stay(browser: Browser) -> None:
    with DaemonProcess() as daemon, Story(daemon.target) as told, tabs(browser, daemon.url) as window:
        told.do(Story.nodes)
        page = window.open("/ui/nodes")
        is_live(page)
        told.is_abandoned = True
        daemon.__exit__(None, None, None)
        expect(page.locator("#freshness")).to_contain_text("connection lost")
        expect(page.locator("#announcement")).to_contain_text("Numbers are as of")
        expect(page.locator("a.sq")).to_have_count(144)


def test_a_page_without_a_resource_manager_is_a_standby(browser: Browser) -> None:
    with DaemonProcess() as daemon, tabs(browser, daemon.url) as window:
        page = window.open("/ui/")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Nothing is scheduled here")
        assert page.evaluate(CHECKS, "labels") == []
        assert window.problems == []


def test_the_stream_is_resumed_by_its_last_id(window: Tabs) -> None:
    page = window.open("/ui/")
    is_live(page)
    kinds = page.evaluate(
        """async () => {
            const seen = [];
            const again = new EventSource(streamAddress());
            for (const kind of ["whole", "changes", "form"]) again.addEventListener(kind, () => seen.push(kind));
            while (!seen.length) await new Promise((done) => setTimeout(done, 50));
            again.close();
            return seen;
        }"""
    )
    assert kinds == ["changes"]
