"""The page as a person uses it: what is typed, clicked and read, in the words of the page."""

from __future__ import annotations

import shutil
import time
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Locator, Page, Playwright

ARGUMENTS = ("--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
HARMLESS = ("net::ERR_ABORTED", "GPU stall due to ReadPixels")


def chromium() -> str | None:
    """Return the path of Debian's Chromium, or of another one; None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def launch(playwright: Playwright) -> Browser:
    """Start Chromium, which draws without a graphics card."""
    return playwright.chromium.launch(executable_path=chromium(), args=[*ARGUMENTS])


def strings(elements: Locator) -> list[str]:
    """Return the text of each element."""
    return [element.inner_text() for element in elements.all()]


class Explorer:
    """An open page. What its console complains about is kept in ``complaints``."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        options = {"viewport": {"width": 1400, "height": 860}, **options}
        self.context: BrowserContext = browser.new_context(**options)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.complaints: list[str] = []
        self.page.on("console", self._listen)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(url)

    def _listen(self, message: Any) -> None:
        if message.type in {"error", "warning"} and not any(x in message.text for x in HARMLESS):
            self.complaints.append(message.text)

    def wait_until(self, condition: str, seconds: float = 20.0) -> None:
        """Wait until JavaScript is true; Playwright's own waiting is what the page's policy forbids."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(f"Boolean({condition})"):
            assert time.monotonic() < end, f"never true: {condition}"
            self.page.wait_for_timeout(30)

    def close(self) -> None:
        """Close the page."""
        self.context.close()

    def wait_until_drawn(self) -> Explorer:
        """Wait for the rows of the first query, and for the first picture."""
        self.wait_for_rows()
        self.wait_until("performance.getEntriesByName('daf-first-picture').length > 0")
        return self

    @property
    def editor(self) -> Locator:
        """The text of the query."""
        return self.page.get_by_role("textbox", name="SQL query")

    @property
    def sql(self) -> str:
        """The query as the editor has it."""
        return "\n".join(strings(self.page.locator(".cm-line"))).strip()

    @property
    def status(self) -> str:
        """What is said about the result."""
        return self.page.locator(".query-status").inner_text()

    def fits(self, selector: str) -> bool:
        """Return whether all of a part is in view without scrolling to the right."""
        # At once: of an element that the page replaces meanwhile, both are 0.
        element = f"document.querySelector('{selector}')"
        sizes = self.page.evaluate(f"(e => [e.scrollWidth, e.clientWidth])({element})")
        return bool(0 < sizes[0] <= sizes[1])

    def swatches(self, entries: str) -> list[list[str]]:
        """Return the name and the colour of each entry, all read at once."""
        pairs: list[list[str]] = self.page.evaluate(
            "entries => [...document.querySelectorAll(entries)].map(each => [each.innerText"
            ".split('\\n')[0], getComputedStyle(each.querySelector('.swatch')).backgroundColor])",
            entries,
        )
        return pairs

    def write(self, sql: str) -> None:
        """Replace the query."""
        self.editor.focus()
        self.page.keyboard.press("Escape")  # closes what is offered
        self.page.keyboard.press("Control+a")
        self.paste(sql)

    def paste(self, text: str) -> None:
        """Put a text where the focus is, as from another program."""
        self.page.evaluate("text => navigator.clipboard.writeText(text)", text)
        self.page.keyboard.press("Control+v")

    def run(self, sql: str) -> None:
        """Replace the query and run it; the answer may be an error."""
        self.write(sql)
        self.page.keyboard.press("Control+Enter")
        self.wait_until_answered()

    def wait_until_answered(self) -> None:
        """Wait until the query has rows or an error."""
        self.wait_until(
            "!document.querySelector('.run').classList.contains('running')"
            " && (document.querySelector('.query-status').textContent.includes(' in ')"
            " || !document.querySelector('.message.problem').hidden)"
        )

    def wait_for_rows(self) -> None:
        """Wait until the query is answered with rows."""
        self.wait_until("document.querySelector('.query-status')?.textContent.includes(' in ')")

    def listed(self, name: str) -> Locator:
        """Return a vector in the list on the left."""
        return self.page.get_by_role("navigation").get_by_role("button", name=name, exact=True)

    def column(self, name: str) -> list[str]:
        """Return the cells of a column that are in view."""
        head = strings(self.page.locator(".table-head [role=columnheader]"))
        place = [text.strip(" ↑↓\n") for text in head].index(name)
        rows = self.page.locator(".table-body [role=row]").all()
        return [row.locator("[role]").nth(place).inner_text() for row in rows]

    def colour_by(self, way: str, value: str, matrix: str | None = None) -> None:
        """Choose the colour: "Column", "Gene" or "SQL", and which."""
        self.page.get_by_label("Colour by", exact=True).select_option(label=way)
        if way == "Column":
            self.page.get_by_label("Column", exact=True).select_option(label=value)
        elif way == "Gene":
            if matrix:
                self.page.get_by_label("Matrix", exact=True).first.select_option(label=matrix)
            field = self.page.get_by_label("gene", exact=True)
            field.fill(value)
            field.press("Enter")
        else:
            field = self.page.get_by_label("SQL expression", exact=True)
            field.fill(value)
            field.press("Enter")
        self.page.wait_for_selector(f'.map[data-shown="{value}"]')

    @property
    def legend(self) -> str:
        """The text of the legend."""
        return self.page.locator(".legend").inner_text()

    def lasso(self, *corners: tuple[float, float]) -> None:
        """Select a part of the map; corners are fractions of its width and height."""
        box = self.page.locator(".scatter-canvas").bounding_box()
        assert box is not None
        self.page.get_by_role("button", name="Lasso").click()
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
        self.page.mouse.move(*places[0])
        self.page.mouse.down()
        for place in [*places[1:], places[0]]:
            self.page.mouse.move(*place, steps=4)
        self.page.mouse.up()
        self.page.get_by_role("button", name="Lasso").click()
        self.page.locator(".selection-bar strong").wait_for()

    @property
    def selected(self) -> str:
        """How many points are selected."""
        return self.page.locator(".selection-bar strong").inner_text().split()[0]
