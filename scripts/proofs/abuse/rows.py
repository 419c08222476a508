"""The attack of one stranger's address, one user's app and one phone on the tables: rows.py SECONDS.

Each attacker repeats its requests on several connections, as fast as the server answers. Afterwards the rows of every table and the
webhooks that have arrived are compared with those before, and with the bounds of docs/threat-model.md.
"""
import http.client, json, os, random, re, subprocess, sys, threading, time
from urllib.parse import urlencode, urlsplit
from proof import call, check, finish, operator, sandbox, server, wait_until

SECONDS = int(sys.argv[1])
CONNECTIONS = 4
USER = 1234
# Each attacker has an address of its own, which has the limits of one.
STRANGER, PHONE, KAKAO = "127.0.0.2", "127.0.0.3", "127.0.0.4"


def sql(query):
    command = ["psql", "-qAt", "-F", " ", "-c", query, os.environ["DATABASE_URL"]]
    return [line.split(" ") for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()]


def count_rows():
    tables = [name for [name] in sql("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')")]
    counts = " UNION ALL ".join(f"SELECT '{name}', count(*) FROM {name}" for name in tables)
    return {name: int(count) for name, count in sql(counts)}


def count_queries():
    """Returns how often a share was looked up by its id."""
    sql("SELECT pg_stat_clear_snapshot()")
    return int(sql("SELECT idx_scan FROM pg_stat_user_tables WHERE relname = 'shares'")[0][0])


def count_webhooks():
    """Returns the webhooks that the endpoint has received."""
    count, after = 0, 0
    while page := json.loads(call(f"{sandbox}/sandbox/webhooks?after={after}&limit=1000"))["items"]:
        count, after = count + len(page), page[-1]["sequence"]
    return count


# MARK: Attackers

attacks = {}
lock = threading.Lock()


def problem(body):
    """Returns the name of the problem in a response; an empty text for a response with none."""
    found = re.search(rb'"type":"urn:kakao-push-server:error:([a-z-]+)"', body)
    return " " + found[1].decode() if found else ""


def attack(name, address, make):
    """Repeats an attack until the end. `make` returns a method, a path, a body of fields and header fields."""

    def run():
        target, statuses, connection = urlsplit(server), {}, None
        while time.monotonic() < end:
            method, path, fields, headers = make()
            try:
                if not connection:
                    connection = http.client.HTTPConnection(target.hostname, target.port, timeout=30, source_address=(address, 0))
                body = urlencode(fields) if fields is not None else None
                if body is not None:
                    headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                outcome = (response.status, problem(response.read()))
            except (OSError, http.client.HTTPException) as error:
                outcome, connection = (599, type(error).__name__), None
            statuses[outcome] = statuses.get(outcome, 0) + 1
        with lock:
            for outcome, count in statuses.items():
                own = attacks.setdefault(name, {})
                own[outcome] = own.get(outcome, 0) + count

    return [threading.Thread(target=run) for _ in range(CONNECTIONS)]


def unique(prefix):
    return f"{prefix}-{random.getrandbits(60)}"


def random_id():
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return "".join(random.choices(alphabet, k=21)) + random.choice("AQgw")


def browser():
    return {"User-Agent": unique("Mozilla/5.0")}


share = json.loads(
    operator("/v1/link/shares", json.dumps({"template": {"object_type": "text", "text": "x", "link": {"web_url": "https://shop.example.com/"}}}))
)
token = json.loads(call(f"{sandbox}/sandbox/login", json.dumps({"user_id": USER})))["access_token"]
# Gives the app the consent to send messages.
call(f"{sandbox}/sandbox/talk/friends", json.dumps({"users": [{"user_id": USER, "friends": [USER + 1]}]}))
app = {"Authorization": f"Bearer {token}"}
kakao = {"Authorization": f"KakaoAK {os.environ['KAKAO_ADMIN_KEY']}"}
template = json.dumps({"object_type": "text", "text": "x", "link": {"web_url": "https://example.com"}})


def device(version, action, **more):
    fields = {"device_id": unique("phone"), "push_type": "gcm", **more}
    return "POST", f"/{version}/push/{action}", fields, app


def message():
    receivers = json.dumps([unique("stranger") for _ in range(5)])
    return "POST", "/v1/api/talk/friends/message/default/send", {"receiver_uuids": receivers, "template_object": template}, app


ATTACKS = [
    ("visits with new browsers", STRANGER, lambda: ("GET", f"/s/{share['id']}", None, browser())),
    ("visits of unknown shares", STRANGER, lambda: ("GET", f"/s/{random_id()}", None, browser())),
    ("invalid operator keys", STRANGER, lambda: ("GET", "/v1/pushes", None, {"Authorization": f"Bearer {unique('key')}"})),
    ("invalid account events", STRANGER, lambda: ("POST", "/kakao/account-events", {"x": unique("x")}, {})),
    ("new devices", PHONE, lambda: device("v1", "register", push_token=unique("token"))),
    ("one token, new devices", PHONE, lambda: device("v1", "register", push_token="token")),
    ("one device, new tokens", PHONE, lambda: device("v1", "register", device_id="phone", push_token=unique("token"))),
    ("withdrawals of unknown devices", PHONE, lambda: device("v1", "deregister")),
    ("refused messages", PHONE, message),
    ("malformed callbacks", KAKAO, lambda: ("POST", "/kakao/link/callback", {unique("x"): "x"}, kakao)),
]

# MARK: Before, during, after

before, queries, webhooks, begin = count_rows(), count_queries(), count_webhooks(), time.monotonic()
end = begin + SECONDS
threads = [thread for name, address, make in ATTACKS for thread in attack(name, address, make)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
time_taken = time.monotonic() - begin
print(f"{CONNECTIONS} connections for each attack, {time_taken:.0f} s:")
for name, statuses in attacks.items():
    print(f"  {name + ':':<32}{sum(statuses.values()):>7} requests; " + ", ".join(f"{count} x {status}{text}" for (status, text), count in sorted(statuses.items())))

# What is still to be counted and delivered in the background, before the rows are compared.
wait_until(60, "the events of shares to be counted", lambda: count_rows()["share_events"] == before["share_events"])
after = count_rows()
grown = {name: after[name] - before[name] for name in after}
check(grown["webhook_events"] >= grown["link_callbacks"], "callbacks have no webhook")
wait_until(60, "the webhooks to arrive", lambda: count_webhooks() - webhooks >= grown["webhook_events"])
time_taken = time.monotonic() - begin

devices = 20 + 20 * time_taken / 3600
visits = 120 + 120 * time_taken / 60
bounds = {
    "devices": devices,
    "link_callbacks": 1000,
    "webhook_events": 1000 + devices,
    "share_visits": visits,
    # The landings of the share.
    "share_counts": 1,
    # In each of four dimensions, and in two hours or days if one ends meanwhile.
    "share_statistics": 8,
    "share_statistics_days": 8,
    # That of the app; a second one after midnight.
    "message_quotas": 2,
    "kakao_calls": 1,
}
print("rows that were added, and the bound:")
for name, count in sorted(grown.items()):
    bound = bounds.get(name, 0)
    if count or bound:
        print(f"  {name + ':':<32}{count:>7} of {bound:.0f}")
    check(count <= bound, f"{name} has {count} more rows; the bound is {bound:.0f}")
landings = json.loads(operator(f"/v1/link/shares/{share['id']}"))["landings"]
sent = count_webhooks() - webhooks
print(f"  {'counted landings:':<32}{landings:>7} of {visits:.0f}")
print(f"  {'webhooks:':<32}{sent:>7} of {bounds['webhook_events']:.0f}")
# A visit that is counted looks its share up again when it is stored, and when it is counted.
looked_up, bound = count_queries() - queries, 600 + 10 * time_taken + 2 * visits
print(f"  {'queries of shares:':<32}{looked_up:>7} of {bound:.0f}")
check(landings <= visits, f"{landings} landings were counted")
check(sent <= bounds["webhook_events"], f"{sent} webhooks were sent")
check(looked_up <= bound, "shares were looked up more often than visits are served")
# An attack that the server answers with errors of its own proves nothing.
for name, statuses in attacks.items():
    failed = sum(count for (status, _), count in statuses.items() if status >= 500)
    check(failed == 0, f"{name}: {failed} requests failed")
    check(sum(statuses.values()) > 100, f"{name}: fewer than 100 requests were answered")
for name in ("devices", "share_visits", "link_callbacks"):
    check(grown[name] >= bounds[name] / 3, f"{name} has only {grown[name]} more rows: the attack did not reach the bound")
finish()
