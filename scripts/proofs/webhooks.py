"""Calls the servers, collects and verifies the webhooks, and compares them with the tables.

Writes its progress to a file, ten times a second: the callbacks answered, the webhooks arrived, and `sending` or `sent`.
"""
import http.client, json, os, random, re, subprocess, sys, threading, time
from standardwebhooks.webhooks import Webhook
from proof import call, check, failures, finish

work, sandbox = sys.argv[1:3]
callbacks, pushes, duration = map(int, sys.argv[3:6])
servers = sys.argv[6:]
SENDERS = 8
answered = {"callback": 0, "push": 0}
lock = threading.Lock()


def sql(query):
    command = ["psql", "-qAt", "-c", query, os.environ["DATABASE_URL"]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def port(server):
    """Returns the port of a server, or None while it starts."""
    for kind in ("log", "out"):
        found = re.search(r"127\.0\.0\.1:(\d+)", open(f"{work}/{server}.{kind}").read())
        if found:
            return int(found[1])


def call_any(method, path, body, headers):
    """Calls any server until one responds with 200: a repetition has no further effect, or is a push of its own."""
    while True:
        connection = None
        try:
            number = port(random.choice(servers))
            if number:
                connection = http.client.HTTPConnection("127.0.0.1", number, timeout=10)
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                response.read()
                if response.status == 200:
                    return
        except (OSError, http.client.HTTPException):
            pass
        finally:
            if connection:
                connection.close()
        time.sleep(0.1)


def send(kind, numbers, every):
    start = time.monotonic()
    for index, number in enumerate(numbers):
        time.sleep(max(0, start + index * every - time.monotonic()))
        if kind == "callback":
            call_any(
                "GET",
                f"/kakao/link/callback?CHAT_TYPE=MemoChat&HASH_CHAT_ID=147bp3dASTS0&TEMPLATE_ID=3135&product_id={number}",
                None,
                {"Authorization": f"KakaoAK {os.environ['KAKAO_ADMIN_KEY']}", "X-Kakao-Resource-ID": f"call-{number}"},
            )
        else:
            call_any(
                "POST",
                "/v1/push/send",
                f"uuids=%5B{number + 1}%5D&push_message=%7B%22for_gcm%22%3A%7B%7D%7D",
                {"Authorization": f"KakaoAK {os.environ['OPERATOR_KEY']}", "Content-Type": "application/x-www-form-urlencoded"},
            )
        with lock:
            answered[kind] += 1


arrivals, first, verified = 0, [], 0
ended = threading.Event()


def collect():
    """Reads the webhooks that the sandbox has received, and verifies them while their timestamps are recent."""
    global arrivals, verified
    libraries = [Webhook(os.environ[name]) for name in ("WEBHOOKS_SECRET", "WEBHOOKS_SECRET_NEXT")]
    known, after = set(), 0
    while True:
        is_last = ended.is_set()
        while True:
            page = json.loads(call(f"{sandbox}/sandbox/webhooks?after={after}&limit=1000"))["items"]
            for webhook in page:
                arrivals += 1
                try:
                    for library in libraries:
                        library.verify(webhook["body"], webhook["headers"])
                    verified += 1
                except Exception as error:
                    failures.append(f"{webhook['id']}: {type(error).__name__} {error}")
                if webhook["id"] not in known:
                    known.add(webhook["id"])
                    first.append(webhook)
            if not page:
                break
            after = page[-1]["sequence"]
        if is_last:
            return
        time.sleep(0.5)


def wait_until(limit, what, condition):
    """Waits until the condition holds. After the limit, the counts show what is missing."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            failures.append(f"timed out waiting for {what}")
            return
        time.sleep(0.5)


def write_progress(phase):
    with open(f"{work}/progress.new", "w") as file:
        file.write(f"{answered['callback']} {arrivals} {phase}\n")
    os.rename(f"{work}/progress.new", f"{work}/progress")


collector = threading.Thread(target=collect, daemon=True)
collector.start()
senders = []
for kind, count in (("callback", callbacks), ("push", pushes)):
    for number in range(SENDERS):
        arguments = (kind, range(number, count, SENDERS), duration * SENDERS / count)
        senders.append(threading.Thread(target=send, args=arguments, daemon=True))
for sender in senders:
    sender.start()
while any(sender.is_alive() for sender in senders):
    write_progress("sending")
    time.sleep(0.1)
write_progress("sent")
wait_until(120, "the journal", lambda: int(sql("SELECT count(*) FROM link_callbacks")[0]) >= callbacks)
wait_until(300, "the pushes", lambda: sql("SELECT count(*) FROM pushes WHERE state <> 'done'") == ["0"])
total = int(sql("SELECT (SELECT count(*) FROM link_callbacks) + (SELECT count(*) FROM pushes)")[0])
wait_until(300, "the webhooks", lambda: len(first) >= total)
time.sleep(2)
ended.set()
collector.join()

tables = {
    "link.callback.received": sql("SELECT id::text FROM link_callbacks AS callback ORDER BY callback.event_xid, callback.id"),
    "push.done": sql("SELECT id::text FROM pushes AS push ORDER BY push.event_xid, push.id"),
}
set_aside = int(sql("SELECT count(*) FROM webhook_deliveries")[0])
journaled = int(sql("SELECT count(*) FROM link_callbacks WHERE stored_at > received_at + interval '1 s'")[0])
named = int(sql("SELECT count(*) FROM link_callbacks WHERE key LIKE 'call-%'")[0])
print(f"""
  callbacks                   {answered['callback']} answered 200, {named} stored, {journaled} of them through the journal
  pushes                      {answered['push']} answered 200, {len(tables['push.done'])} stored
  webhooks                    {arrivals} arrived, {len(first)} different, {arrivals - len(first)} repetitions
  verified                    {verified}
  set aside                   {set_aside}""")
for kind, ids in tables.items():
    arrived = [json.loads(webhook["body"])["data"]["id"] for webhook in first if webhook["type"] == kind]
    missing = len(set(ids) - set(arrived))
    displaced = sum(left != right for left, right in zip(ids, arrived))
    print(f"  {kind:<27} {len(arrived)} arrived, {missing} missing, {displaced} not at their place in the order")
    check(
        missing == displaced == 0 and len(arrived) == len(ids),
        f"{kind}: {missing} missing, {displaced} out of order, {len(arrived)} instead of {len(ids)}",
    )
check(named == callbacks == answered["callback"], f"{named} callbacks are stored")
check(journaled >= callbacks / 10, f"only {journaled} callbacks were in the journal")
check(verified == arrivals, f"only {verified} of {arrivals} webhooks were verified")
finish()
