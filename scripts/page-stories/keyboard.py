"""The keyboard alone."""
from playwright.sync_api import expect

from browser import Operator, base


def reach(person, target):
    """Presses Tab until the part has the focus."""
    for _ in range(100):
        if target.evaluate("part => part === document.activeElement"):
            shown = target.evaluate("part => { const { outlineStyle, boxShadow } = getComputedStyle(part); return [outlineStyle, boxShadow] }")
            assert shown != ["none", "none"], f"the focus is not seen at {target}"
            return
        person.page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {target}")


def test_push(world):
    """Without a mouse: signing in, writing a push, checking it, sending it to testers, and the help of the shortcuts."""
    with Operator(world.browser, language="en", provoked=(401,)) as kim:
        keys = kim.page.keyboard
        kim.page.goto(f"{base}/ui/")
        expect(kim.field("field.key")).to_be_focused()
        keys.type(world.keys["kim"])
        keys.press("Enter")
        expect(kim.page.get_by_role("heading", level=1)).to_be_focused()
        keys.press("?")
        dialog = kim.page.locator("dialog[open]")
        kim.sees(kim.t("shortcuts"), dialog)
        keys.press("Escape")
        expect(dialog).to_have_count(0)
        keys.press("n")
        expect(kim.page.get_by_role("heading", level=1)).to_have_text(kim.t("new"))
        kim.settle()
        reach(kim, kim.main.get_by_role("radio", name=kim.t("new.kind.informational"), exact=True))
        keys.press("Space")
        for name, words in (("title", "By keyboard"), ("text", "No mouse was here")):
            reach(kim, kim.field(f"new.{name}"))
            keys.type(words)
        reach(kim, kim.button("new.check"))
        keys.press("Enter")
        expect(kim.button("new.testers")).to_be_visible()
        reach(kim, kim.button("new.testers"))
        keys.press("Enter")
        tests = kim.main.get_by_role("region", name=kim.t("new.tests"), exact=True)
        kim.sees(kim.t("state.done"), tests)
        expect(tests).to_be_focused()


checks = [("keyboard: a push is sent to testers without a mouse", test_push)]
