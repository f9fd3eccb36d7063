"""Screenshots of the gallery for docs/pages/gallery.md; needs Chromium with its driver, and the extras app and browser.

    python docs/gallery_screens.py [SYSTEM]

opens a gallery without runs, photographs the start page and the page of a system (flot) after "Use the example" and
"Run", and writes docs/pages/gallery-wall.png and gallery-system.png.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

PAGES = Path(__file__).parent / "pages"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


def wait(browser: webdriver.Chrome, selector: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not any(e.is_displayed() for e in browser.find_elements(By.CSS_SELECTOR, selector)):
        if time.monotonic() > end:
            raise SystemExit(f"{selector} did not appear")
        time.sleep(0.2)


def photograph(browser: webdriver.Chrome, name: str) -> None:
    path = PAGES / f"gallery-{name}.png"
    browser.save_screenshot(str(path))
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, Image.Quantize.MEDIANCUT).save(path, optimize=True)


def main(system: str) -> None:
    command = [sys.executable, "-m", "vergence", "gallery", "--no-open", "--port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([*command, "--runs", folder], cwd=folder, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for flag in (*FLAGS, f"--user-data-dir={folder}/profile", "--window-size=1000,1200"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            browser.get(address[0])
            wait(browser, ".card")
            time.sleep(2)
            photograph(browser, "wall")
            browser.get(address[0] + system)
            wait(browser, "#example")
            browser.find_element(By.CSS_SELECTOR, "#example").click()
            time.sleep(3)
            browser.find_element(By.CSS_SELECTOR, "#run").click()
            wait(browser, "#result .job.done", 180)
            time.sleep(3)
            browser.execute_script("window.scrollTo(0, 0)")
            photograph(browser, "system")
        finally:
            browser.quit()
            server.terminate()


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["flot"]))
