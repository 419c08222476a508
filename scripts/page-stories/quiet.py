"""What the page asks for and logs, how fast it is there, and what its server refuses."""
import json, re, time, urllib.error, urllib.parse, urllib.request

from browser import Operator, base, records
from data import operator
from screens import addresses


def first_paint(world):
    """The sign-in is painted within 300 ms: the best of many visits, since other programs may have the processors."""
    paints = []
    while len(paints) < 5 or min(paints) > 300 and len(paints) < 30:
        with Operator(world.browser, provoked=(401,)) as visitor:
            visitor.page.goto(f"{base}/ui/")
            visitor.field("field.key").wait_for()
            entry = visitor.page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
            paints.append(entry.json_value())
    assert min(paints) <= 300, f"the best first paint is after {min(paints):.0f} ms"
    return f"first paint {min(paints):.0f} ms"


def idle(world):
    """A page that is left open asks for at most one thing in 5 s. Its clock is moved, so that a minute passes at once."""
    counts = {}
    for name in ("overview", "push-done", "push-proposed", "try"):
        with Operator(world.browser, language="en") as admin:
            admin.page.clock.install()
            admin.page.goto(f"{base}/ui/#key={world.keys['admin']}")
            admin.page.get_by_role("navigation", name=admin.t("navigation")).wait_for()
            admin.open(addresses(world)[name])
            before = admin.requests
            for _ in range(12):
                admin.page.clock.run_for(5000)
                admin.settle()
            counts[name] = (admin.requests - before) / 60
    assert max(counts.values()) <= 0.2, f"requests a second: {counts}"
    return ", ".join(f"{name} {count:.2f}" for name, count in counts.items()) + " requests a second"


def forged_requests(world):
    """A session is of no use to another site, nor under another name."""
    with world.operator("park", language="ko") as park:
        [cookie] = park.context.cookies()
    assert cookie["name"].startswith("__Host-") and cookie["httpOnly"] and cookie["secure"] and cookie["sameSite"] == "Strict", cookie
    name, value = cookie["name"], cookie["value"]
    origin = {"Origin": base}
    for what, cookie, headers, expected in [
        ("its own origin", name, origin, 200),
        ("a foreign origin", name, {"Origin": "https://example.com"}, 403),
        ("another site", name, {"Sec-Fetch-Site": "cross-site"}, 403),
        ("neither header", name, {}, 403),
        ("another name", name.removeprefix("__Host-"), origin, 401),
    ]:
        request = urllib.request.Request(f"{base}/v1/sender/start", b"", {"Cookie": f"{cookie}={value}", **headers}, method="POST")
        try:
            status = urllib.request.urlopen(request, timeout=10).status
        except urllib.error.HTTPError as error:
            status = error.code
        assert status == expected, f"POST with {what}: {status}, not {expected}"


def only_operations(world):
    """All that the page has called until now is in openapi.json, apart from the sandbox's controls, and nothing was asked elsewhere."""
    with open("docs/openapi.json") as file:
        paths = json.load(file)["paths"]
    operations = [(method.upper(), re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)))) for path, item in paths.items() for method in item]
    unknown = [
        f"{method} {path}" for method, path in sorted(records.calls) if not path.startswith("/sandbox/")
        and not any(method == known and pattern.fullmatch(path) for known, pattern in operations)
    ]
    assert not unknown, f"no operations of docs/openapi.json: {unknown}"
    assert records.calls, "no call was recorded"
    assert not records.foreign, f"other origins: {sorted(records.foreign)}"
    return f"{len(records.calls)} calls"


def silent(world):
    """The console had nothing but the refusals that stories provoke."""
    # A user without a login has no account: Chromium logs each 404.
    messages = sorted({message for message in records.messages if "/v1/accounts/" not in message})
    assert not messages, "\n".join(messages)


checks = [
    ("quiet: first paint within 300 ms", first_paint),
    ("quiet: an idle page", idle),
    ("quiet: forged requests are refused", forged_requests),
]
# At the end of every run.
last_checks = [("all: only operations of the API are called", only_operations), ("all: nothing is logged", silent)]
