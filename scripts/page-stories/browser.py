"""The page in a browser: an operator signs in, opens screens and finds parts by their texts. What the page requests and logs is recorded."""
import json, os, re, time, urllib.parse

from playwright.sync_api import expect

base = os.environ.get("PAGE_URL") or os.environ["SERVER_URL"]
texts_folder = "Sources/Features/OperatorPage/ui/texts"
expect.set_options(timeout=10_000)


class Texts:
    """The texts of the page in a language, by their keys."""

    def __init__(self, language):
        self.all = {}
        for name in (f"{language}.json", f"try.{language}.json"):
            with open(f"{texts_folder}/{name}") as file:
                self.all |= json.load(file)

    def __call__(self, key, **values):
        """Returns the text of a key with its values, or the pattern of a text whose values are not given."""
        text = self.all[key]
        for name, value in values.items():
            text = text.replace("{" + name + "}", str(value))
        return re.compile(re.sub(r"\\{\w+\\}", ".*", re.escape(text))) if re.search(r"{\w+}", text) else text


class Records:
    """What all pages have requested and logged."""

    def __init__(self):
        self.calls, self.foreign, self.messages = set(), set(), []

    def watch(self, operator):
        page = operator.page
        page.on("request", lambda request: self.request(operator, request))
        for event in ("requestfinished", "requestfailed"):
            page.on(event, lambda request: operator.in_flight.discard(request))
        page.on("console", lambda message: self.message(operator, f"{message.type}: {message.text} {message.location.get('url', '')}"))
        page.on("pageerror", lambda error: self.messages.append(f"error: {error}"))

    def request(self, operator, request):
        url = urllib.parse.urlsplit(request.url)
        if url.scheme in ("data", "blob"):
            return
        if f"{url.scheme}://{url.netloc}" != operator.server:
            self.foreign.add(request.url)
        elif not url.path.startswith("/ui/"):
            self.calls.add((request.method, url.path))
        operator.requests += 1
        if request.resource_type != "eventsource":
            operator.in_flight.add(request)

    def message(self, operator, text):
        status = re.search(r"the server responded with a status of (\d+)|net::(ERR_\w+)", text)
        if not status or (int(status[1]) if status[1] else status[2]) not in operator.provoked:
            self.messages.append(text)


records = Records()


class Operator:
    """A person in front of the page: a browser context of its own, in a language."""

    all = []

    def __init__(self, browser, key=None, language="en", width=1280, dark=False, provoked=(), script=None, server=base):
        self.t, self.language, self.provoked, self.requests, self.in_flight = Texts(language), language, provoked, 0, set()
        self.server = server
        self.context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            timezone_id="Asia/Seoul",
            locale={"ko": "ko-KR", "en": "en-US"}[language],
        )
        if script:
            self.context.add_init_script(script)
        self.page = self.context.new_page()
        records.watch(self)
        Operator.all.append(self)
        if key:
            self.page.goto(f"{server}/ui/#key={key}")
            expect(self.page.get_by_role("navigation", name=self.t("navigation"))).to_be_visible()
            self.settle()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        # The page of a story that failed stays for its picture.
        if kind is None:
            self.close()

    def close(self):
        Operator.all.remove(self)
        self.context.close()

    def enter(self, key):
        """Signs in with the form."""
        self.field("field.key").fill(key)
        self.press("sign-in")

    def open(self, address, heading=None):
        """Opens a screen, and waits for its heading and its data."""
        self.page.evaluate("address => { location.hash === address ? dispatchEvent(new Event('hashchange')) : location.hash = address }",
                           f"#/{address}")
        if heading:
            expect(self.page.get_by_role("heading", level=1)).to_have_text(heading)
        self.settle()

    def settle(self, limit=10):
        """Waits until no request is in flight; an event stream does not count."""
        last, quiet = time.monotonic() + limit, 0
        while quiet < 3:
            self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
            quiet = 0 if self.in_flight else quiet + 1
            if time.monotonic() > last:
                raise AssertionError(f"requests without an answer: {[request.url for request in self.in_flight]}")

    # Parts by the keys of their texts. Those of an open dialog are meant, because nothing else can be reached then.

    @property
    def top(self):
        dialog = self.page.locator("dialog[open]")
        return dialog if dialog.count() else self.page

    @property
    def main(self):
        return self.page.get_by_role("main")

    @property
    def banner(self):
        return self.page.locator("#banner")

    def button(self, key, **values):
        return self.top.get_by_role("button", name=self.t(key, **values), exact=True)

    def press(self, key, **values):
        self.button(key, **values).click()

    def field(self, key):
        return self.top.get_by_label(self.t(key), exact=False).and_(self.top.locator("input, select, textarea")).first

    def choose(self, key):
        self.main.get_by_role("radio", name=self.t(key), exact=True).check()

    def confirm(self, key, **fields):
        """Presses the action of the dialog after its fields are filled, and waits for its end."""
        dialog = self.page.locator("dialog[open]")
        expect(dialog).to_be_visible()
        for name, value in fields.items():
            self.field(f"field.{name}").fill(value)
        # The button that opens the dialog may have dots.
        dialog.get_by_role("button", name=self.t(key).removesuffix("…"), exact=True).click()
        expect(dialog).to_be_hidden()

    def sees(self, text, place=None, timeout=10):
        expect((place or self.page).get_by_text(text).filter(visible=True).first).to_be_visible(timeout=timeout * 1000)

    def sees_state(self, state, timeout=10):
        """Waits for the state of the push that is shown."""
        self.sees(self.t(f"state.{state}"), self.main.locator(".head"), timeout)

    def by_hand(self, method, path, body=None):
        """Calls an operation from the page's origin with its session, and returns the status and the body."""
        return self.page.evaluate(
            """async ([method, path, body]) => {
                const headers = body === null ? {} : { 'Content-Type': 'application/json' }
                const response = await fetch(path, { method, headers, body: body === null ? undefined : JSON.stringify(body) })
                return [response.status, await response.text()]
            }""", [method, path, body])
