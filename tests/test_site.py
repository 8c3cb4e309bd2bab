"""The site in a browser, at the widths of a laptop and of a telephone; after `make docs`, and where there is a browser.

One page, the driver below, opens all others in a frame and tells this test what it saw: what is wider than the page,
broken or in error, text that is too pale for its background in the light or in the dark, and what a search finds.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SITE = Path(__file__).parents[1] / "docs" / "_build" / "html"
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
WIDTHS = (1280, 390)
SECONDS = 600
COMPLAINT = r'CONSOLE[^"]*"(?!\[PST\]|Got invalid theme mode)'  # other than what the theme says it does

DRIVER = """<!doctype html><body style="margin:0"><script>
const pages = PAGES, widths = WIDTHS, seen = {wide: [], broken: [], errors: [], pale: [], found: null, pages: 0};
const links = new Map();
const settle = () => new Promise(done => setTimeout(done, 150));
const channels = colour => colour.match(/[\\d.]+/g).map(Number);
function luminance(colour) {
  const [r, g, b] = channels(colour).map(x => x / 255).map(x => x <= 0.04 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function behind(element) {
  for (; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor;
    if (channels(colour)[3] !== 0) return colour;
  }
  return "rgb(255, 255, 255)";
}
function pale(page, inside) {
  for (const theme of ["light", "dark"]) {
    inside.document.documentElement.dataset.theme = theme;
    for (const element of inside.document.body.querySelectorAll("*")) {
      const words = [...element.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join("").trim();
      const style = getComputedStyle(element), {width, height} = element.getBoundingClientRect();
      const hidden = style.opacity === "0" || style.visibility === "hidden" || width < 2 || height < 2;
      if (!words || hidden || words === "+") continue;  // the sign between two keys
      const [less, more] = [luminance(style.color), luminance(behind(element))].sort((a, b) => a - b);
      if ((more + 0.05) / (less + 0.05) < 3)
        seen.pale.push(`${page}, ${theme}: ${element.tagName} ${element.className} ${words.slice(0, 30)}`);
    }
  }
}
async function open(page, width) {
  const frame = document.createElement("iframe");
  frame.style = `border:0; width:${width}px; height:900px`;
  const loaded = new Promise(done => { frame.onload = done; });
  frame.src = page;
  document.body.append(frame);
  await loaded;
  const inside = frame.contentWindow;
  inside.addEventListener("error", event => seen.errors.push(`${page}: ${event.message}`));
  if (inside.MathJax?.startup?.promise) await inside.MathJax.startup.promise;
  await settle();
  const root = inside.document.documentElement;
  if (root.scrollWidth > root.clientWidth + 1) seen.wide.push(`${page} at ${width}: ${root.scrollWidth}`);
  for (const image of inside.document.images) {
    image.loading = "eager";
    await image.decode().catch(() => seen.broken.push(`${page}: ${image.src}`));
  }
  for (const link of inside.document.links)
    if (link.origin === location.origin) links.set(link.href.split("#")[0], page);
  for (const link of inside.document.links)
    if (link.hash.length > 1 && link.href.split("#")[0] === inside.location.href.split("#")[0]
        && !inside.document.getElementById(decodeURIComponent(link.hash.slice(1))))
      seen.broken.push(`${page}: ${link.hash}`);
  if (width === widths[0]) pale(page, inside);
  frame.remove();
  seen.pages += 1;
}
async function search(words) {
  const frame = document.createElement("iframe");
  frame.src = `search.html?q=${words}`;
  document.body.append(frame);
  for (let tries = 0; tries < 100; tries += 1) {
    await settle();
    if (frame.contentWindow.document.body?.textContent.includes("Search finished")) break;
  }
  seen.found = frame.contentWindow.document.querySelectorAll("#search-results li a").length;
  frame.remove();
}
(async () => {
  for (const width of widths) for (const page of pages) await open(page, width);
  if (pages.includes("search.html")) await search("theophylline");
  for (const [link, page] of links)
    if (!(await fetch(link, {method: "HEAD"})).ok) seen.broken.push(`${page}: ${link}`);
  await fetch("/seen", {method: "POST", body: JSON.stringify(seen)});
})();
</script></body>"""


class Handler(SimpleHTTPRequestHandler):
    """Serves the site and the driver, and takes what the driver has seen."""

    server: Any

    def do_GET(self) -> None:
        if self.path != "/driver":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.server.driver.encode())
        return None

    def do_POST(self) -> None:
        self.server.seen = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.done.set()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def look(folder: Path, tmp_path: Path) -> tuple[dict[str, Any], list[str]]:
    """What the driver saw in a folder of pages, and what the browser wrote to its console."""
    assert CHROMIUM is not None
    pages = sorted(str(page.relative_to(folder)) for page in folder.rglob("*.html"))
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    server.driver = DRIVER.replace("PAGES", json.dumps(pages)).replace("WIDTHS", json.dumps(WIDTHS))
    server.done = threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    log = tmp_path / "browser.log"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--remote-debugging-port=0"]
    with log.open("w") as stderr:
        browser = subprocess.Popen([*command, f"http://127.0.0.1:{server.server_port}/driver"], stderr=stderr)
        try:
            assert server.done.wait(SECONDS), log.read_text()[-2000:]
        finally:
            browser.terminate()
            browser.wait(30)
            server.shutdown()
            server.server_close()
    complaints = [line for line in log.read_text().splitlines() if re.search(COMPLAINT, line)]
    return server.seen, complaints


pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]


def test_every_page_fits_and_leads_somewhere(tmp_path):
    if not (SITE / "index.html").exists():
        pytest.skip("there is no site: `make docs` builds it")
    seen, complaints = look(SITE, tmp_path)
    assert seen["pages"] > 80
    assert seen["wide"] == []
    assert seen["broken"] == []
    assert seen["errors"] == []
    assert seen["pale"] == []
    assert seen["found"] >= 3
    assert complaints == []


@pytest.fixture
def faulty(tmp_path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "wide.html").write_text("<!doctype html><body><div style='width:600px'>wide</div></body>")
    (folder / "links.html").write_text(
        "<!doctype html><body><a href='none.html'>a</a><a href='#none'>b</a><img src='none.png'></body>"
    )
    (folder / "pale.html").write_text(
        "<!doctype html><style>[data-theme=dark] body { background: #222222 }</style><body><p>one</p></body>"
    )
    (folder / "script.html").write_text("<!doctype html><body><script>console.error('oh')</script></body>")
    return folder


def test_faults_are_seen(faulty, tmp_path):
    seen, complaints = look(faulty, tmp_path)
    assert [each.split(":")[0] for each in seen["wide"]] == ["wide.html at 390"]
    assert {each.rsplit("/")[-1] for each in seen["broken"]} == {"none.html", "links.html: #none", "none.png"}
    assert seen["pale"] == ["pale.html, dark: P  one"]
    assert any("oh" in line for line in complaints)
