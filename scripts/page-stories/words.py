"""No text stands in code: with each text in ⟦ ⟧, every word on each screen that is not data is in them."""
import json

from browser import Operator, Texts, base
from screens import each

# The names of products, formats and identifiers have no other language.
names = ["PostgreSQL", "JSON", "ID", "push-server", "curl"]
find = """names => [...document.querySelectorAll('button, label, legend, th, h1, h2, h3, option, summary, nav a, dt, figcaption, .hint, .empty')]
  .filter(part => part.checkVisibility() || part.tagName === 'OPTION')
  .filter(part => !part.hasAttribute('lang') && !part.closest('[data-name], .mono'))
  .map(part => {
    const copy = part.cloneNode(true)
    for (const inner of copy.querySelectorAll('.mono, option, textarea')) inner.remove()
    return { part, words: part.getAttribute('aria-label') ?? copy.textContent.trim() }
  })
  .filter(({ words }) => /\\p{L}/u.test(words) && !words.includes('⟦') && !words.split(' · ').every(word => names.includes(word)))
  .map(({ part, words }) => `${part.tagName.toLowerCase()} “${words.slice(0, 60)}”`)"""


def no_text_in_code(world):
    wrapped = {key: text and f"⟦{text}⟧" for key, text in Texts("en").all.items()}
    body = json.dumps(wrapped, ensure_ascii=False)
    found = {}
    with Operator(world.browser, language="en", provoked=(404,)) as admin:
        admin.page.route("**/texts/*en.json", lambda route: route.fulfill(body=body, content_type="application/json"))
        admin.t.all = wrapped
        admin.page.goto(f"{base}/ui/#key={world.keys['admin']}")
        admin.page.get_by_role("navigation", name=admin.t("navigation")).wait_for()
        for screen in each(world, admin):
            words = admin.page.evaluate(find, names)
            # The heading of a push is its name.
            words = [text for text in words if not (screen.startswith("push-") and text.startswith("h1 "))]
            for text in words:
                found.setdefault(text, screen)
    assert not found, "words that are not in the texts: " + "; ".join(f"{text} on {screen}" for text, screen in found.items())


checks = [("words: no text stands in code", no_text_in_code)]
