"""A web page of an Angular build under the policy of `web_root`: it has styles, and no other script in line runs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="the extra dev installs it")

from tests.contract.daemon_process import DaemonProcess
from tests.ui.browser import CHROMIUM, chromium, tabs, until

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no chromium: apt-get install chromium")

INDEX = """<!doctype html><html><head><style>body { margin: 3px }</style>
<link rel="stylesheet" href="styles.css" media="print" onload="this.media='all'">
</head><body><p>page</p><script>document.title = "in line"</script><script src="main.js"></script>
<img src="none.png" onerror="document.title = 'handler'"></body></html>"""


def test_an_angular_build_has_its_styles_and_no_other_script_in_line_runs(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(INDEX)
    (tmp_path / "styles.css").write_text("p { color: rgb(1, 2, 3) }")
    (tmp_path / "main.js").write_text("window.isLoaded = true")
    with (
        DaemonProcess("--web-root", str(tmp_path)) as daemon,
        chromium() as browser,
        tabs(browser, daemon.url) as window,
    ):
        page = window.open("/")
        until(page, "window.isLoaded === true")
        until(page, "getComputedStyle(document.querySelector('p')).color === 'rgb(1, 2, 3)'")
        assert page.evaluate("getComputedStyle(document.body).margin") == "3px"
        page.wait_for_timeout(300)
        assert page.title() == ""
        assert len([one for one in window.problems if "Content Security Policy" in one]) == 2
