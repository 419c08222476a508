"""Drives the servers of a failover and counts what it lost.

failover.py traffic FILE USERS CALLBACKS: registers, withdraws and erases devices of USERS new users a second, makes CALLBACKS Link
callbacks a second and asks for /readyz, until SIGTERM; writes what was answered.
failover.py send MARKER USERS FILE: creates a push of each guarantee, and returns once a quarter of each has reached its users.
failover.py settle MARKER USERS FILE lost|kept|announced: waits until the sender is stopped or the pushes are done, starts it, and checks whom
they reached. Only kept excludes that users are reached twice by a push that says so.
failover.py compare FILE lost|kept TIME: compares what was answered with the database and with Kakao. Erasures count if the
callback before them was answered before TIME, in seconds since 1970.
"""
import asyncio, json, os, random, re, signal, subprocess, sys, time
from proof import call, check, finish, operator, sandbox, send_to_audience, show, upload_audience, wait_until

GUARANTEES = ("at_least_once", "at_most_once")
# The time in seconds between two requests for /readyz.
POLL = 0.1
FIRST_USER = 1_000_001
servers = os.environ["SERVER_URLS"].split()
OPERATOR = {"Authorization": "Bearer " + os.environ["OPERATOR_KEY"]}
KAKAO = {"Authorization": "KakaoAK " + os.environ["KAKAO_ADMIN_KEY"]}


# MARK: traffic


async def request(server, method, path, headers, body=""):
    """Calls a server, and returns the status and the response: 0 if it was lost, or takes longer than 20 s."""
    host, port = server.removeprefix("http://").split(":")
    writer = None
    try:
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection(host, int(port))
            lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {len(body)}"]
            lines += ["Content-Type: application/x-www-form-urlencoded", *(f"{name}: {text}" for name, text in headers.items())]
            writer.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
            response = await reader.read()
            return int(response.split(b" ", 2)[1]), response
    except (OSError, TimeoutError, ValueError, IndexError):
        return 0, b""
    finally:
        if writer:
            writer.close()


async def run_traffic(file, users_per_second, callbacks_per_second):
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    # The last change of each user that was requested, and what it should lead to; the callbacks that were answered 200.
    users, callbacks = {}, {}
    # The kind of each request, its begin, its seconds and its status; the states of the database that /readyz showed, and when.
    answers, states = [], []

    async def ask(kind, *arguments):
        begin = time.time()
        status, _ = await request(random.choice(servers), *arguments)
        answers.append((kind, begin, time.time() - begin, status))
        return status

    async def watch(server):
        while not ended.is_set():
            _, response = await request(server, "GET", "/readyz", {})
            found = re.search(rb'"database":"(\w+)"', response)
            states.append((time.time(), found[1].decode() if found else "none"))
            await asyncio.sleep(POLL)

    async def change(user, kind, token, method, path, body=""):
        """Requests a change of a user, and returns whether it was answered."""
        status = await ask("change", method, path, OPERATOR, body)
        users[user] = {**users.get(user, {}), "kind": kind, "token": token, "status": status}
        return 200 <= status < 300

    async def send_callback(name, user):
        path = f"/kakao/link/callback?CHAT_TYPE=MemoChat&HASH_CHAT_ID=147bp3dASTS0&TEMPLATE_ID=3135&user={user}"
        status = await ask("callback", "GET", path, {**KAKAO, "X-Kakao-Resource-ID": name})
        if status == 200:
            callbacks[name] = time.time()
        return status == 200

    async def live(user):
        """Registers a device; some time later withdraws it, replaces its token, or erases the user."""
        device = f"/v1/devices/phone?uuid={user}"
        if not await change(user, "registered", f"token-{user}", "PUT", device, f"push_type=fcm&push_token=token-{user}"):
            return
        if user % 4 == 2 and await send_callback(f"user-{user}", user):
            users[user]["callback"] = callbacks[f"user-{user}"]
        # A change that follows within the lag is lost together with the registration.
        try:
            await asyncio.wait_for(ended.wait(), random.uniform(0, 4))
        except TimeoutError:
            pass
        match user % 4:
            case 0:
                await change(user, "withdrawn", None, "DELETE", device)
            case 1:
                await change(user, "new token", f"new-{user}", "PUT", device, f"push_type=fcm&push_token=new-{user}")
            case 2 if "callback" in users[user]:
                await change(user, "erased", None, "DELETE", f"/v1/users/{user}")

    tasks, begin, number = set(), time.monotonic(), 0

    def start(task):
        task = asyncio.create_task(task)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    for server in servers:
        start(watch(server))
    callback = 0
    while not ended.is_set():
        elapsed = time.monotonic() - begin
        for number in range(number, int(elapsed * users_per_second)):
            start(live(FIRST_USER + number))
        number = int(elapsed * users_per_second)
        for callback in range(callback, int(elapsed * callbacks_per_second)):
            start(send_callback(f"call-{callback}", 0))
        callback = int(elapsed * callbacks_per_second)
        await asyncio.sleep(0.02)
    await asyncio.gather(*tasks)
    with open(file, "w") as output:
        json.dump({"users": users, "callbacks": callbacks, "answers": answers, "states": states}, output)


# MARK: pushes


def summary(marker):
    """Returns how often the sandbox has counted the users of a push as reached."""
    items = json.loads(call(sandbox + "/sandbox/reached"))["items"]
    return next((item for item in items if item["marker"] == marker), {"users": 0, "more_than_once": 0})


def answered(request):
    """Returns the result of an idempotent request once it succeeds: not every event loop reaches the database at the same time."""
    results = []

    def is_answered():
        try:
            results.append(request())
        except OSError:
            return False
        return True

    wait_until(120, "a server to answer", is_answered)
    return results[0]


def send(marker, users, file):
    answered(lambda: upload_audience(users))
    pushes = {}
    for delivery in GUARANTEES:
        message = {"for_gcm": {"custom_field": {"marker": f"{marker}-{delivery}"}}}
        key = {"Idempotency-Key": f"{marker}-{delivery}"}
        pushes[delivery] = answered(lambda: send_to_audience(key, delivery=delivery, message=message))
    with open(file, "w") as output:
        json.dump(pushes, output)
    is_underway = lambda: all(summary(f"{marker}-{delivery}")["users"] >= users / 4 for delivery in GUARANTEES)
    wait_until(600, "a quarter of the pushes", is_underway)


def settle(marker, users, file, outcome):
    with open(file) as stored:
        pushes = json.load(stored)

    def shown(delivery):
        """Returns a push, or nothing while the database is away."""
        try:
            return show(pushes[delivery])
        except OSError:
            return {"state": None}

    def sender():
        """Returns the state of the sender and its reason, or nothing while the database is away."""
        try:
            status = json.loads(operator("/v1/status"))["sender"]
        except OSError:
            return None, None
        return status["state"], status.get("reason")

    limit = 300 + users / 100
    are_done = lambda: all(shown(delivery)["state"] == "done" for delivery in GUARANTEES)
    wait_until(limit, "the sender to be stopped or the pushes to be done", lambda: sender()[0] == "stopped" or are_done())
    state, reason = sender()
    print(f"\n{marker}: the sender is {state}; {reason or 'no reason'}")
    before = {delivery: (answered(lambda: show(pushes[delivery])), summary(f"{marker}-{delivery}")) for delivery in GUARANTEES}
    if outcome == "lost":
        check(state == "stopped" and "lost commits" in (reason or ""), f"{marker}: the sender is {state} after the loss of commits")
    else:
        check(state != "stopped", f"{marker}: the sender was stopped without a loss of commits: {reason}")

    def is_over():
        # Each server stops the sender that finds that it knows something more.
        if sender()[0] == "stopped":
            operator("/v1/sender/start", "", "POST")
        return are_done()

    wait_until(limit, "the pushes to be done", is_over)
    for delivery, (push, reached) in before.items():
        check_push(marker, delivery, pushes[delivery], push, reached, users, outcome)


def check_push(marker, delivery, path, before, reached_before, users, outcome):
    reached = {}
    for page in pages(lambda after: f"{sandbox}/sandbox/reached?marker={marker}-{delivery}&min_times=1&after={after}&limit=10000", call):
        reached.update((item["user_id"], item["times"]) for item in page)
    states, repeatable = {}, set()
    batches = lambda url: answered(lambda: operator(url))
    for page in pages(lambda cursor: f"{path}/batches?limit=1000&cursor={cursor}", batches):
        for batch in page:
            states.update((str(user), batch["state"]) for user in batch["uuids"])
            if batch["may_repeat"]:
                repeatable.update(str(user) for user in batch["uuids"])
    twice = {user for user, times in reached.items() if times > 1}
    silent = twice - repeatable if delivery == "at_least_once" else twice
    missed = set(states) - set(reached)
    uncertain = sum(state == "uncertain" for state in states.values())
    missed_silently = [user for user in missed if states[user] not in ("uncertain", "failed")]
    name = f"{marker}, {delivery}"
    print(f"""
{name}
  when that was known         {before['state']}
  reached more than once      {reached_before['more_than_once']} then, {len(twice)} at the end; of them not announced: {len(silent)}
  users by batch              may_repeat {len(repeatable)}, uncertain {uncertain}
  not reached                 {len(missed)}, of them neither uncertain nor failed: {len(missed_silently)}""")
    check(len(states) == users, f"{name}: {len(states)} users are in batches instead of {users}")
    check(not silent, f"{name}: {len(silent)} users were reached twice, and the push does not say so")
    check(not missed_silently, f"{name}: {len(missed_silently)} users were not reached, and the push does not say so")
    if outcome == "kept":
        check(not twice, f"{name}: {len(twice)} users were reached twice")


def pages(url, get):
    """Reads a list page by page."""
    after = 0
    while after is not None:
        page = json.loads(get(url(after)))
        yield page["items"]
        after = page["next"]


# MARK: compare


def sql(query):
    command = ["psql", "-qAt", "-F", " ", "-c", query, os.environ["DATABASE_URL"]]
    return [line.split(" ") for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()]


def difference(users):
    """Returns the users whose devices are not what the last answered change demands, by what is wrong."""
    here = {int(user): token for user, token in sql(f"SELECT user_id, push_token FROM devices WHERE user_id >= {FIRST_USER}")}
    at_kakao, ids = {}, list(users)
    for begin in range(0, len(ids), 100):
        listed = json.loads(call(f"{sandbox}/v1/push/tokens?uuids=%5B{','.join(map(str, ids[begin:begin + 100]))}%5D", headers=KAKAO))
        at_kakao.update((int(item["user_id"]), item["push_token"]) for item in listed)
    wrong = {}
    for user, last in users.items():
        if here.get(user) != last["token"]:
            wrong.setdefault((last["kind"], "here"), []).append(user)
        if at_kakao.get(user) != last["token"]:
            wrong.setdefault((last["kind"], "at Kakao"), []).append(user)
    return wrong


def lost_commits():
    """Returns the sum of the servers' metric, or nothing if there is none."""
    texts = [call(url + "/metrics", headers=OPERATOR) for url in servers]
    values = [float(value) for text in texts for value in re.findall(r"^kakao_push_lost_commits_total(?:\{.*\})? (\S+)$", text, re.M)]
    return sum(values) if values else None


def compare(file, outcome, moment):
    with open(file) as stored:
        answered = json.load(stored)
    # An unanswered change may have been made or not.
    users = {int(user): last for user, last in answered["users"].items() if 200 <= last["status"] < 300}
    callbacks = answered["callbacks"]
    stored = lambda: [key for key, in sql("SELECT key FROM link_callbacks")]
    last = time.monotonic() + 120
    while (wrong := difference(users)) or callbacks.keys() - set(stored()):
        if time.monotonic() > last:
            break
        time.sleep(1)
    keys = stored()
    missing, repeated = callbacks.keys() - set(keys), len(keys) - len(set(keys))
    print(f"\nchanges of devices and callbacks, {len(answered['users']) - len(users)} users' last change was not answered")
    for kind in ("registered", "new token", "withdrawn", "erased"):
        count = sum(last["kind"] == kind for last in users.values())
        here, at_kakao = (len(wrong.get((kind, where), [])) for where in ("here", "at Kakao"))
        print(f"  {kind:<27} {count} answered; wrong here {here}, at Kakao {at_kakao}")
        check(count > 0, f"no user was {kind}")
        check(here == at_kakao == 0, f"{kind}: {here} of {count} are wrong here, {at_kakao} at Kakao")
    print(f"  {'callbacks':<27} {len(callbacks)} answered 200, {len(missing)} not stored, {repeated} stored twice")
    check(not missing, f"{len(missing)} callbacks that were answered 200 are not stored")
    check(not repeated, f"{repeated} callbacks are stored twice")
    if outcome == "lost":
        # A callback that was answered while the database was away may have been stored after the erasure (docs/callbacks.md).
        erased = {user for user, last in users.items() if last["kind"] == "erased" and last["callback"] < moment}
        named = {int(user) for user, in sql("SELECT args ->> 'user' FROM link_callbacks WHERE args ->> 'user' <> '0'")} & erased
        print(f"  {'erased users':<27} {len(erased)}, named by a callback {len(named)}")
        check(not named, f"callbacks name {len(named)} users who were erased")
    commits = lost_commits()
    print(f"  {'lost commits (metric)':<27} {'no such metric' if commits is None else int(commits)}")
    if outcome == "lost":
        check(commits, "kakao_push_lost_commits_total is not above 0")
    else:
        check(not commits, f"kakao_push_lost_commits_total is {commits}, although nothing was lost")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["traffic", file, *rates]:
            asyncio.run(run_traffic(file, *map(int, rates)))
        case ["send", marker, users, file]:
            send(marker, int(users), file)
        case ["settle", marker, users, file, outcome]:
            settle(marker, int(users), file, outcome)
        case ["compare", file, outcome, moment]:
            compare(file, outcome, float(moment))
    finish()
