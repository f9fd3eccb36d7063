"""A visitor: a browser and what one does with it."""

from __future__ import annotations

import json
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--window-size=1280,1000",
]  # fmt: skip


class Visitor:
    def __init__(self, address, browser, driver, profile):
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for flag in [*FLAGS, f"--user-data-dir={profile}"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        self.address = address
        self.driver = webdriver.Chrome(options=options, service=Service(driver))

    def close(self):
        self.driver.quit()

    def open(self, page=""):
        self.driver.get(self.address + page)
        self.wait(".card" if not page else ".top h1")
        if page:  # what is asked for as it opens has come
            self.wait("#claims .note", 40)
            self.wait("#reports .note, #reports li")
        return self

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def wait(self, selector, seconds=60, shown=True):
        """The first element that the selector finds, once it is seen."""
        return self.until(
            lambda: next((e for e in self.all(selector) if e.is_displayed() or not shown), None),
            f"{selector} did not appear",
            seconds,
        )

    def until(self, what, otherwise, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                found = what()
            except Exception as error:  # an element that was drawn anew in the meantime
                found, otherwise = None, f"{otherwise} ({type(error).__name__})"
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"{otherwise}; the page says: {self.text('body')[-1500:]}")

    def text(self, selector):
        return " ".join(e.text for e in self.all(selector))

    def says(self, selector, words, seconds=60):
        return self.until(lambda: words in self.text(selector), f"{selector} does not say {words!r}", seconds)

    def type(self, selector, text):
        box = self.wait(selector)
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys(text)

    def upload(self, field, *paths):
        self.wait(f"#file-{field}", shown=False)
        box = self.until(lambda: self.all(f"#file-{field} input[type=file]"), f"no upload field {field}")[0]
        box.send_keys("\n".join(map(str, paths)))
        return self

    def click(self, selector):
        found = self.until(
            lambda: next((e for e in self.all(selector) if e.is_displayed() and e.is_enabled()), None),
            f"{selector} cannot be clicked",
        )
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()

    def click_picture(self, selector, across, down):
        """A click at a share of the picture's width and height."""
        image = self.wait(f"{selector} img")
        self.until(lambda: image.size["height"] > 30, f"{selector} is not drawn")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", image)
        x, y = image.size["width"] * (across - 0.5), image.size["height"] * (down - 0.5)
        ActionChains(self.driver).move_to_element_with_offset(image, x, y).click().perform()

    def result(self, seconds=90):
        """Wait for the end of a job: its artifacts by kind."""
        self.wait("#result .job.done, #result .wrong", seconds)
        assert not self.all("#result .wrong"), self.text("#result .wrong")
        return self.all("#result figure.artifact")

    def drawn(self, selector):
        """Whether an image is there and has pixels."""
        code = "return arguments[0].complete && arguments[0].naturalWidth > 0"
        found = self.all(selector)
        return bool(found) and all(self.driver.execute_script(code, e) for e in found)

    def requests(self):
        """Every address that the pages asked for."""
        found = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.add(message["params"]["request"]["url"])
        return found
