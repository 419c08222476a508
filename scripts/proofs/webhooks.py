"""Calls the servers, receives and verifies the webhooks, and compares them with the tables and with the API.

Writes its progress to a file, ten times a second: the callbacks answered, the webhooks arrived, and `sending` or `sent`.
"""
import http.client, json, os, random, re, subprocess, sys, threading, time
from standardwebhooks.webhooks import Webhook
from proof import call, check, failures, finish

work = sys.argv[1]
callbacks, pushes, duration = map(int, sys.argv[2:5])
servers = sys.argv[5:]
SENDERS = 8
secrets = {"default": ["WEBHOOKS_SECRET", "WEBHOOKS_SECRET_NEXT"], "analytics": ["ANALYTICS_SECRET"]}
answered = {"callback": 0, "push": 0}
created = set()
lock = threading.Lock()


def sql(query):
    """Returns the rows of a query, each a list of texts."""
    command = ["psql", "-qAt", "-F", " ", "-c", query, os.environ["DATABASE_URL"]]
    return [line.split(" ") for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()]


def count(table):
    return int(sql(f"SELECT count(*) FROM {table}")[0][0])


# MARK: Load


def port(server):
    """Returns the port of a server, or None while it starts."""
    for kind in ("log", "out"):
        found = re.search(r"127\.0\.0\.1:(\d+)", open(f"{work}/{server}.{kind}").read())
        if found:
            return int(found[1])


def call_any(method, path, body=None, headers={}):
    """Calls any server until one responds with 2xx: a repetition has no further effect. Returns the body."""
    while True:
        connection = None
        try:
            number = port(random.choice(servers))
            if number:
                connection = http.client.HTTPConnection("127.0.0.1", number, timeout=10)
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                content = response.read()
                if response.status < 300:
                    return content
                if response.status < 500 and response.status != 429:
                    with lock:
                        failures.append(f"{method} {path}: {response.status} {content[:200]}")
                    return b"{}"
        except (OSError, http.client.HTTPException):
            pass
        finally:
            if connection:
                connection.close()
        time.sleep(0.1)


def operator(method, path, body=None, key="OPERATOR_KEY", headers={}):
    headers = {"Authorization": f"Bearer {os.environ[key]}", "Content-Type": "application/json", **headers}
    return json.loads(call_any(method, path, json.dumps(body) if body is not None else None, headers) or "{}")


def send_callback(number):
    call_any(
        "GET",
        f"/kakao/link/callback?CHAT_TYPE=MemoChat&HASH_CHAT_ID=147bp3dASTS0&TEMPLATE_ID=3135&product_id={number}",
        None,
        {"Authorization": f"KakaoAK {os.environ['KAKAO_ADMIN_KEY']}", "X-Kakao-Resource-ID": f"call-{number}"},
    )


def send_push(number):
    """Creates a push, and approves it with another key."""
    push = {"audience": {"uuids": [number + 1]}, "skip_unknown": False, "message": {"for_gcm": {"custom_field": {"marker": "m"}}}}
    id = operator("POST", "/v1/pushes", push, "CREATOR_KEY", {"Idempotency-Key": f"push-{number}"}).get("id")
    if id:
        operator("POST", f"/v1/pushes/{id}/approve")
        with lock:
            created.add(id)


def send(kind, numbers, every):
    start = time.monotonic()
    for index, number in enumerate(numbers):
        time.sleep(max(0, start + index * every - time.monotonic()))
        send_callback(number) if kind == "callback" else send_push(number)
        with lock:
            answered[kind] += 1


# MARK: Receivers


class Receiver:
    """An endpoint as a backend would write it, which reads what its sandbox has received."""

    def __init__(self, name, url):
        self.name, self.url = name, url
        self.libraries = [Webhook(os.environ[secret]) for secret in secrets[name]]
        # The body of each webhook, by its id.
        self.bodies = {}
        # The latest revision and data of each object.
        self.objects = {}
        self.arrivals = self.verified = self.changed = self.overtaken = 0
        self.thread = threading.Thread(target=self.collect, daemon=True)
        self.thread.start()

    def collect(self):
        """Verifies the requests while their timestamps are recent."""
        after = 0
        while True:
            is_last = ended.is_set()
            while page := json.loads(call(f"{self.url}/sandbox/webhooks?after={after}&limit=1000"))["items"]:
                for webhook in page:
                    self.receive(webhook["headers"], webhook["body"])
                after = page[-1]["sequence"]
            if is_last:
                return
            time.sleep(0.5)

    def receive(self, headers, body):
        id = headers.get("webhook-id", "")
        self.arrivals += 1
        try:
            for library in self.libraries:
                library.verify(body, headers)
            self.verified += 1
        except Exception as error:
            failures.append(f"{self.name}, {id}: {type(error).__name__} {error}")
        if id in self.bodies:
            self.changed += self.bodies[id] != body
            return
        self.bodies[id] = body
        webhook = json.loads(body)
        known = self.objects.get(webhook["subject"])
        if known and known[0] >= webhook["revision"]:
            self.overtaken += 1
        else:
            self.objects[webhook["subject"]] = (webhook["revision"], webhook["data"])

    def of_type(self, type):
        """Returns the ids of the objects in the webhooks of a type."""
        webhooks = (json.loads(body) for body in self.bodies.values())
        return {webhook["data"]["id"] for webhook in webhooks if webhook["type"] == type}


def wait_until(limit, what, condition, every=0.5):
    """Waits until the condition holds. After the limit, the counts show what is missing."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            failures.append(f"timed out waiting for {what}")
            return
        time.sleep(every)


def write_progress(phase):
    with open(f"{work}/progress.new", "w") as file:
        file.write(f"{answered['callback']} {sum(receiver.arrivals for receiver in receivers)} {phase}\n")
    os.rename(f"{work}/progress.new", f"{work}/progress")


ended = threading.Event()
receivers = [Receiver(*receiver.split("=", 1)) for receiver in os.environ["RECEIVERS"].split()]
senders = []
for kind, total in (("callback", callbacks), ("push", pushes)):
    for number in range(SENDERS):
        arguments = (kind, range(number, total, SENDERS), duration * SENDERS / total)
        senders.append(threading.Thread(target=send, args=arguments, daemon=True))
for sender in senders:
    sender.start()
while any(sender.is_alive() for sender in senders):
    write_progress("sending")
    time.sleep(0.1)
write_progress("sent")


def all_delivered():
    """Returns whether every event is delivered. Those that wait for their next attempt are made due, so that the proof does not wait for
    minutes."""
    waiting = sql("SELECT id FROM webhook_events WHERE state = 'failed' OR state = 'pending' AND due_at > now() + interval '10 s'")
    for [id] in waiting[:1000]:
        operator("POST", "/v1/webhooks/replay", {"id": f"msg_{id}"})
    return not waiting and count("webhook_events WHERE state <> 'delivered'") == 0


wait_until(120, "the journal", lambda: count("link_callbacks") >= callbacks)
wait_until(300, "the pushes", lambda: count("pushes WHERE state <> 'done'") == 0)
retried = count("webhook_events WHERE attempts > 0")
for receiver in receivers:
    call(f"{receiver.url}/sandbox/faults", method="DELETE")
wait_until(300, "the webhooks", all_delivered, every=2)
time.sleep(2)
ended.set()
for receiver in receivers:
    receiver.thread.join()

# MARK: Comparison

events = {}
for endpoint, id, type, state in sql("SELECT endpoint, id, type, state FROM webhook_events"):
    events.setdefault(endpoint, {})[f"msg_{id}"] = (type, state)
journaled = count("link_callbacks WHERE stored_at > received_at + interval '1 s'")
named = count("link_callbacks WHERE key LIKE 'call-%'")
shown_pushes = {id: operator("GET", f"/v1/pushes/{id}") for id in created}
shown_callbacks, cursor = {}, ""
while cursor is not None:
    page = operator("GET", f"/v1/link/callbacks?limit=1000{cursor}")
    shown_callbacks.update((item["id"], item) for item in page["items"])
    cursor = page["next"] and f"&cursor={page['next']}"


def is_current(receiver, subject, shown):
    """Returns whether a receiver that drops what is older knows an object as the API shows it."""
    known = receiver.objects.get(subject)
    return known is not None and known[1] != {} and all(shown.get(name) == value for name, value in known[1].items())


caused = {"push.proposed": created, "push.done": created}
rows = []
for receiver in receivers:
    name = receiver.name
    expected = {**caused, "link.callback.received": set(shown_callbacks)} if name == "default" else caused
    stored = events.get(name, {})
    missing = set(stored) - set(receiver.bodies)
    unknown = set(receiver.bodies) - set(stored)
    unaccepted = sum(state != "delivered" for _, state in stored.values())
    lost = {type: len(ids - receiver.of_type(type)) for type, ids in expected.items()}
    stale = sum(not is_current(receiver, f"pushes/{id}", push) for id, push in shown_pushes.items())
    if name == "default":
        stale += sum(not is_current(receiver, f"callbacks/{id}", item) for id, item in shown_callbacks.items())
    total = sum(map(len, expected.values()))
    rows.append([
        total, len(stored), len(receiver.bodies), len(missing), sum(lost.values()), receiver.arrivals - len(receiver.bodies), receiver.changed,
        receiver.overtaken, stale, f"{receiver.verified} of {receiver.arrivals}",
    ])
    check(len(stored) == total, f"{name}: {len(stored)} events are stored; the load caused {total}")
    check(not missing, f"{name}: {len(missing)} events are missing, such as {sorted(missing)[:3]}")
    check(not any(lost.values()), f"{name}: of what the load caused, these are missing: {lost}")
    check(not unknown, f"{name}: {len(unknown)} webhooks are no events of it, such as {sorted(unknown)[:3]}")
    check(unaccepted == 0, f"{name}: {unaccepted} events are not delivered")
    check(receiver.changed == 0, f"{name}: {receiver.changed} repetitions had another body")
    check(stale == 0, f"{name}: {stale} objects are not as the API shows them")
    check(receiver.verified == receiver.arrivals, f"{name}: only {receiver.verified} of {receiver.arrivals} requests were verified")
check(set(events) == {receiver.name for receiver in receivers}, f"there are events of {set(events)}")
check(len(created) == pushes == answered["push"], f"{len(created)} pushes were created")
check(named == callbacks == answered["callback"], f"{named} callbacks are stored")
check(journaled >= callbacks / 10, f"only {journaled} callbacks were in the journal")

print(f"""
{answered['callback']} callbacks were answered 200, {journaled} of them stored through the journal; {answered['push']} pushes were approved and sent.
{retried} webhooks were rejected, or their response was lost, at least once.

| measure | {' | '.join(f'`{receiver.name}`' for receiver in receivers)} | target |
| --- | {'--- | ' * len(receivers)}--- |""")
measures = [
    ("webhooks that the load caused", ""), ("events in the database", "the same"), ("webhooks that arrived", "the same"),
    ("events that are missing", "0"), ("of what the load caused, missing", "0"), ("repetitions", ""), ("repetitions with another body", "0"),
    ("webhooks that a later one of the same object overtook", ""), ("objects that the receiver does not know as the API shows them", "0"),
    ("requests that `standardwebhooks` verified", "all"),
]
for (measure, target), values in zip(measures, zip(*rows)):
    print(f"| {measure} | {' | '.join(map(str, values))} | {target} |")
finish()
