"""Reports in a real browser: they draw, every control does something, nothing is asked for, text stays text."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from tests.reporting.conftest import EVIL, EVIL_COLUMN
from tests.tools.scripts import script

pytestmark = pytest.mark.browser

WIDTHS = {1280: 900, 380: 800}


@pytest.fixture(scope="module")
def browser():
    """A real one, or the reason why there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright isn't installed")
    path = script("browser").find()
    if path is None:
        pytest.skip("there is no chromium: make test-browser installs it where it can")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Opened:
    """A page, what its console said, and what it asked for."""

    def __init__(self, browser, path, width):
        self.errors, self.asked, self.dialogs = [], [], []
        size = {"width": width, "height": WIDTHS[width]}
        self.context = browser.new_context(viewport=size, offline=True, has_touch=width < 500)
        self.page = self.context.new_page()
        self.page.on(
            "console", lambda said: self.errors.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("body[data-ready]", timeout=30_000)
        self.page.wait_for_timeout(500)

    def _heard(self, said):
        if said.type in ("error", "warning"):
            self.errors.append(said.text)

    def picture(self, what):
        """Pixels of an element."""
        self.page.wait_for_timeout(250)
        return imread(io.BytesIO(self.page.locator(what).screenshot()))

    def plots(self):
        return [element.get_attribute("id") for element in self.page.locator(".plot").all()]


@pytest.fixture(params=WIDTHS)
def width(request):
    return request.param


@pytest.fixture(params=["map_page", "slices_page", "terms_page"])
def opened(request, browser, width):
    found = Opened(browser, request.getfixturevalue(request.param), width)
    found.path = request.getfixturevalue(request.param)
    yield found
    found.context.close()


def colours(picture):
    """How many different ones there are."""
    return len(np.unique((255 * picture[..., :3]).round().astype(int).reshape(-1, 3), axis=0))


def test_everything_draws_and_nothing_is_asked_for(opened, width):
    assert len(opened.plots()) >= 6
    for plot in opened.plots():
        assert colours(opened.picture(f"#{plot}")) > 20, plot
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert not opened.errors
    assert not opened.dialogs
    assert [url for url in opened.asked if not url.startswith(("data:", "blob:"))] == [opened.path.as_uri()]


def test_every_control_does_something(opened):
    page = opened.page
    for control in page.locator("input[data-shows]").all():
        key = control.get_attribute("id")
        group = control.get_attribute("name") or key
        plot = group.removesuffix("-layer") if group.endswith("-layer") else "map"
        label = page.locator(f'label[for="{key}"]')
        before = opened.picture(f"#{plot}")
        was = control.is_checked()
        (label if label.count() else control).click()
        if was and control.get_attribute("type") == "radio":  # the one that is pressed at first
            assert np.array_equal(opened.picture(f"#{plot}"), before)
            continue
        assert control.is_checked() != was
        assert not np.array_equal(opened.picture(f"#{plot}"), before), label.inner_text() if label.count() else key
        if control.get_attribute("type") == "checkbox":
            control.click()
    assert not opened.errors


def test_choices_show_one_layer_at_a_time(browser, map_page, width):
    opened = Opened(browser, map_page, width)
    shown = """() => {
        const model = (id) => Bokeh.documents.map((page) => page.get_model_by_id(id)).find(Boolean);
        const choices = [...document.querySelectorAll("input[name=map-layer]")];
        return choices.map((choice) => choice.dataset.shows.split(" ").map((id) => model(id).visible));
    }"""
    labels = opened.page.locator('label[for^="map-layer-"]').all()
    names = [label.inner_text() for label in labels]
    assert names == ["mean", "sd", "5 % quantile", "95 % quantile", "P(> 3)", "observations", "residuals"]
    for number, label in enumerate(labels):
        label.click()
        visible = [any(layer[:1]) for layer in opened.page.evaluate(shown)]
        assert visible == [other == number for other in range(len(labels))]
    opened.context.close()


def test_a_degree_of_longitude_is_as_short_as_it_is(browser, map_page, width):
    opened = Opened(browser, map_page, width)
    sizes = opened.page.evaluate(
        """() => {
            const plot = Bokeh.documents[0].roots()[0];
            const range = (one) => one.end - one.start;
            return [plot.inner_width / range(plot.x_range), plot.inner_height / range(plot.y_range)];
        }"""
    )
    middle = np.deg2rad(46.5)
    assert sizes[0] / sizes[1] == pytest.approx(np.cos(middle), rel=0.02)
    opened.context.close()


def test_hover_shows_the_numbers_of_the_model(browser, map_page, counts):
    opened = Opened(browser, map_page, 1280)
    page = opened.page
    page.locator("#map-over-0").uncheck()
    page.locator("#map").scroll_into_view_if_needed()
    box = page.locator("#map").bounding_box()
    for across, down in ((0.4, 0.35), (0.63, 0.5)):
        page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
        page.wait_for_timeout(400)
        said = page.locator(".bk-tooltip-content").first.inner_text()
        numbers = dict(re.findall(r"(x|y|mean|sd|P\(> 3\)):\s*(-?[\d.e-]+)", said))
        # the middle of the cell that the pointer is in; cells of 0.1 begin at multiples of it
        x, y = (np.floor(float(numbers[axis]) / 0.1) * 0.1 + 0.05 for axis in "xy")
        middle = float(np.median(counts_covariate(counts)))
        dist = counts.predict_dist(pd.DataFrame({"lon": [x], "lat": [y], EVIL_COLUMN: [middle]}))
        assert float(numbers["mean"]) == pytest.approx(dist.mean[0], rel=1e-4)
        assert float(numbers["sd"]) == pytest.approx(dist.std[0], rel=1e-4)
        assert float(numbers["P(> 3)"]) == pytest.approx(dist.exceed(3.0)[0], rel=1e-4)
    opened.context.close()


def counts_covariate(model):
    from npvi.maps import training_inputs

    return training_inputs(model)[:, 2]


def test_names_are_text(opened):
    page = opened.page
    assert "owned" not in page.title().replace(EVIL, "").replace(EVIL_COLUMN, "")
    assert page.locator("main script, main img").count() == 0
    assert EVIL in page.locator("header").inner_text()
    assert EVIL_COLUMN in page.locator("main").inner_text()
    assert not opened.errors
    assert not opened.dialogs


def test_policy_forbids_scripts_and_requests(browser, map_page):
    opened = Opened(browser, map_page, 1280)
    broken = opened.page.evaluate(
        """async () => {
            const found = [];
            document.addEventListener("securitypolicyviolation", (event) => found.push(event.effectiveDirective));
            const script = document.createElement("script");
            script.textContent = "document.title = 'owned'";
            document.body.append(script);
            const image = document.createElement("img");
            image.src = "https://example.org/x.png";
            document.body.append(image);
            await fetch("https://example.org/").catch(() => 0);
            await new Promise((done) => setTimeout(done, 300));
            return found;
        }"""
    )
    assert {"script-src-elem", "img-src", "connect-src"} <= set(broken)
    assert opened.page.title() != "owned"
    opened.context.close()


def test_neighbourhoods_can_be_chosen(browser, map_page, counts, width):
    opened = Opened(browser, map_page, width)
    page = opened.page
    select = page.locator("#neighbourhood-choice")
    select.select_option(index=5)
    row = int(select.locator("option").nth(5).inner_text().removeprefix("row ").replace(",", ""))
    page.locator("summary").click()
    cells = [text.split() for text in page.locator("#neighbourhood-rows tr").all_inner_texts()]
    graph = counts.graph_
    position = int(np.flatnonzero(graph.order == row)[0])
    parents = graph.parents[position]
    weights = dict(zip(graph.order[parents[parents >= 0]].tolist(), counts.prior_.conditional_mean_weights[position]))
    assert {int(cell[0]): float(cell[1]) for cell in cells} == pytest.approx(weights, abs=6e-4)
    before = opened.picture("#neighbourhood-plot")
    page.locator("#neighbourhood-after").click()
    assert not np.array_equal(opened.picture("#neighbourhood-plot"), before)
    assert select.input_value() == "6"
    page.locator("#neighbourhood-before").click()
    assert select.input_value() == "5"
    assert not opened.errors
    opened.context.close()
