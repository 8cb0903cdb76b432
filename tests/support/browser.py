"""Pages in a headless Chromium, for scripts of the tests."""

import os
import re
import shutil
import subprocess
import tempfile

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = (1280, 400)  # of the windows, in pixels
# Says to the frame around the page by how many pixels the page is wider than the window, how many tables and pictures are
# clipped with no way to scroll to them, and whether a wide table's first column stands when it is scrolled.
PROBE = """<script>
addEventListener('load', () => {
  const root = document.documentElement;
  const clipped = [...document.querySelectorAll('table, svg')].filter((e) => {
    if (e.getBoundingClientRect().right <= root.clientWidth + 1) return false;
    for (let box = e.parentElement; box; box = box.parentElement) {
      if (getComputedStyle(box).overflowX === 'auto') return false;
    }
    return true;
  });
  const box = [...document.querySelectorAll('.wide')].find((e) => e.querySelector('table') && e.scrollWidth > e.clientWidth);
  if (box) box.scrollLeft = 80;
  const first = box && box.querySelector('tbody td');
  const stands = !box || Math.abs(first.getBoundingClientRect().left - box.getBoundingClientRect().left) <= 1;
  parent.postMessage(`${innerWidth} over ${root.scrollWidth - root.clientWidth} clipped ${clipped.length} stands ${stands}`, '*');
});
</script>"""
FRAME = """<body><iframe src="{}" style="width: {}px; height: 900px; border: 0"></iframe><pre id="widths"></pre><script>
addEventListener('message', (event) => document.getElementById('widths').textContent = event.data);
</script></body>"""


def open_page(url, profile):
    return subprocess.run(
        [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
         "--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000", "--dump-dom", url],
        capture_output=True, text=True, timeout=300)


def why_not():
    """Why no page can be shown here; empty: it can."""
    if not CHROMIUM:
        return "there is no chromium on this machine"
    with tempfile.TemporaryDirectory() as profile:
        empty = open_page("data:text/html,<p>shown</p>", profile)
    return "" if "<p>shown</p>" in empty.stdout else "this chromium shows no page: " + empty.stderr[-300:]


def check_widths(text):
    """In windows of 1,280 and of 400 pixels nothing of the page is clipped; a wide table scrolls, its first column stands."""
    with tempfile.TemporaryDirectory() as folder:
        framed, frame = (os.path.join(folder, name) for name in ("framed.html", "frame.html"))
        assert text.count("<head>") == 1
        with open(framed, "w") as file:
            file.write(text.replace("<head>", "<head>" + PROBE, 1))
        for width in WIDTHS:
            with open(frame, "w") as file:
                file.write(FRAME.format("framed.html", width))
            done = open_page("file://" + frame, os.path.join(folder, f"profile{width}"))
            said = re.search(r'<pre id="widths">(.*?)</pre>', done.stdout)
            print("window:", said and said[1])
            assert said and said[1] == f"{width} over 0 clipped 0 stands true", said
