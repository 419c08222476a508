"""Stories of connections: a server is restarted while it is watched, a session ends there, and many tabs are open at once."""
import os, re, subprocess, tempfile, time

from playwright.sync_api import expect

from browser import Operator
from data import operator, post, send, show, users, wait_for_state, wait_until

# A browser in which every tab is seen reports none as hidden: this makes a tab hidden or seen, as a change of tabs does.
tabs = """
    let isHidden = false
    Object.defineProperty(Document.prototype, 'hidden', { get: () => isHidden })
    window.hideTab = value => { isHidden = value; document.dispatchEvent(new Event('visibilitychange')) }
"""

# What a browser logs of an event stream and of requests while their server is away.
lost = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE_CHUNKED_ENCODING")


class Server:
    """A further server on the same database, which can be restarted at its address."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        self.port = 0
        self.start()

    def start(self):
        environment = {
            **os.environ, "HTTP_PORT": str(self.port), "JOURNAL_DIRECTORY": f"{self.folder}/journal", "HTTP_PUBLIC_URL": "http://127.0.0.1"
        }
        self.log = open(f"{self.folder}/log", "w+")
        self.process = subprocess.Popen(["push-server", "serve"], env=environment, stdout=self.log, stderr=subprocess.STDOUT)
        self.port = int(wait_until(60, "another server to listen", self.listening)[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def listening(self):
        self.log.seek(0)
        text = self.log.read()
        assert self.process.poll() is None, text[-2000:]
        return "notice   Ready" in text and re.search(r"Listening address=127\.0\.0\.1:(\d+)", text)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()

    def restart(self):
        self.stop()
        self.start()


def sent(person):
    """The number of users sent to that the page shows."""
    label = person.main.get_by_text(person.t("sent"), exact=True)
    return int(label.locator("xpath=following-sibling::dd").inner_text().replace(",", ""))


def restarted(world):
    """A push that is watched goes on within ten seconds after its server was restarted, without signing in again."""
    server = Server()
    try:
        push = send("Watched", list(world.list), users_per_second=60, key=world.keys["kim"])
        operator(f"/v1/pushes/{push}/approve", "{}", headers={"Authorization": "Bearer " + world.keys["lee"]})
        with Operator(world.browser, world.keys["kim"], language="ko", server=server.url, provoked=lost) as kim:
            kim.open(f"push/{push}")
            kim.sees_state("sending")
            server.restart()
            begin, before = time.monotonic(), show(push)["users"]["sent"]
            wait_until(10, "the page to show what was sent since", lambda: sent(kim) > before)
            took = time.monotonic() - begin
            operator(f"/v1/pushes/{push}/cancel", "{}", "POST")
            kim.sees_state("canceled")
        return f"{took:.1f} s"
    finally:
        server.stop()


def ended_while_watching(world):
    """A session whose key is revoked ends while it watches: the page leads to the sign-in without a click."""
    made = post("/v1/keys", {"name": "guest", "scopes": ["read", "approve"]})
    push = send("Watched by a guest", [1001, 1002, 1003], key=world.keys["kim"])
    with Operator(world.browser, made["key"], language="en", provoked=(401,)) as guest:
        guest.open(f"push/{push}")
        guest.sees_state("proposed")
        operator(f"/v1/keys/{made['id']}", method="DELETE")
        begin = time.monotonic()
        expect(guest.page.get_by_role("button", name=guest.t("sign-in"), exact=True)).to_be_visible(timeout=5000)
        return f"{time.monotonic() - begin:.1f} s"


def eight_tabs(world):
    """Eight tabs watch a push side by side, and each is alive when it is looked at: hidden ones give up their connections."""
    push = send("Watched in eight tabs", list(world.list), users_per_second=60, key=world.keys["kim"])
    with Operator(world.browser, world.keys["lee"], language="ko", script=tabs) as lee:
        pages = [lee.page, *(lee.context.new_page() for _ in range(7))]
        for page in pages:
            for other in pages:
                if other != page and other.url.startswith("http"):
                    other.evaluate("hideTab(true)")
            page.goto(f"{lee.page.url.split('#')[0]}#/push/{push}")
            lee.page = page
            page.evaluate("hideTab(false)")
            lee.sees_state("proposed")
        lee.press("action.approve")
        lee.confirm("action.approve")
        lee.sees_state("sending")
        for page in pages:
            lee.page.evaluate("hideTab(true)")
            lee.page = page
            page.evaluate("hideTab(false)")
            lee.sees_state("sending")
            known = show(push)["users"]["sent"]
            wait_until(10, "a tab to show what was sent since", lambda: sent(lee) >= known)
        operator(f"/v1/pushes/{push}/cancel", "{}", "POST")
        lee.sees_state("canceled")
        lee.page = pages[0]


checks = [
    ("serving: a watched push goes on after a restart", restarted),
    ("serving: a session that watches ends with its key", ended_while_watching),
    ("serving: eight tabs side by side", eight_tabs),
]
