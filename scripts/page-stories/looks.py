"""Each screen for everyone: axe, in both languages and schemes at three widths, and nothing wider than a screen."""
from concurrent.futures import ThreadPoolExecutor

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from browser import Operator, records
from screens import addresses, each

widths = (1280, 768, 390)
# Only the colors depend on the scheme.
rules = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}
looks = [(language, scheme) for scheme in rules for language in ("ko", "en")]
run_axe = """rules => axe.run(document, { resultTypes: ['violations'], selectors: false, ...rules })
  .then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes[0].html.slice(0, 120)]))"""
cut_tables = """[...document.querySelectorAll('.scroll')].filter(part => part.scrollWidth > part.clientWidth)
  .map(part => `${part.getAttribute('aria-label')} by ${part.scrollWidth - part.clientWidth}`)"""


def look(world, language, scheme):
    """Returns the problems of all screens in a language and a scheme, each with where it is. Runs in a thread with a browser of its own."""
    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        admin = Operator(browser, world.keys["admin"], language, dark=scheme == "dark", provoked=(404,), script=Axe().axe_script)
        try:
            for screen in each(world, admin):
                for width in widths:
                    admin.page.set_viewport_size({"width": width, "height": 900})
                    for rule, html in admin.page.evaluate(run_axe, rules[scheme]):
                        found.setdefault(f"{rule}: {html}", []).append(f"{screen} at {width}, {scheme}, {language}")
                    if admin.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                        found.setdefault(f"scrolls sideways at {width}", []).append(f"{screen} in {language}")
                    # On a tablet, a wide table is pushed sideways; on a phone, its rows are cards.
                    for label in admin.page.evaluate(cut_tables) if width != 768 else []:
                        found.setdefault(f"the table {label} is cut at {width}", []).append(f"{screen} in {language}")
        finally:
            Operator.all.remove(admin)
            browser.close()
    return found


def each_screen(world):
    addresses(world)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda arguments: look(world, *arguments), looks))
    problems = [f"{problem} on {', '.join(places[:4])} ({len(places)} in all)" for found in results for problem, places in found.items()]
    assert not problems, "\n".join(problems)
    assert len(records.calls) > 20, f"only {len(records.calls)} calls were recorded on all screens"


checks = [("looks: axe on each screen, in both languages and schemes, at three widths", each_screen)]
