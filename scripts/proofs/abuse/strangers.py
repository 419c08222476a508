"""Strangers who call operations that need no credential, and the others who are served meanwhile.

strangers.py codes PORT one|many CONNECTIONS SECONDS: returns from Kakao's login with invented codes, all with the cookie of one login
or each with one of its own. Prints the number of responses by status.
strangers.py events PORT SANDBOX CONNECTIONS SECONDS: sends forged account events: with an invented signature under a key
that Kakao has, with an invented key, and for an invented app. Prints the number of responses by status.
strangers.py register PORT, strangers.py callback PORT: registers devices, or calls as Kakao does, 50 times a second until SIGTERM.
Prints the number of requests, of those that failed, and the median, the 99th percentile and the maximum of the time in ms.
strangers.py tabs PORT ADDRESS: logs users in in two tabs of a browser at an address. Prints the seconds.
"""
import asyncio, base64, collections, json, os, random, re, signal, sys, time, urllib.request

mode, port = sys.argv[1], int(sys.argv[2])


class Client:
    """A client that keeps a connection, and opens another one when it is closed."""

    def __init__(self, address="127.0.0.1"):
        self.address, self.writer = address, None

    async def request(self, method, path, fields={}, body=b""):
        """Returns the status and the head of a response."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(self.address, 0))
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        if method == "POST":
            head += f"Content-Length: {len(body)}\r\n"
        try:
            self.writer.write(head.encode() + b"\r\n" + body)
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"(?i)\r\ncontent-length: (\d+)", head)
            if length:
                await self.reader.readexactly(int(length[1]))
            return int(head[9:12]), head
        except (OSError, asyncio.IncompleteReadError):
            self.writer.close()
            self.writer = None
            raise

    async def begin_login(self, query=""):
        """Begins a login. Returns its state, its cookie and the address of Kakao's login."""
        status, head = await self.request("GET", "/login/kakao" + query)
        if status != 302:
            sys.exit(f"/login/kakao is answered {status}")
        location = re.search(r"(?i)\r\nlocation: (\S+)", head)[1]
        return re.search(r"[?&]state=([^&]+)", location)[1], re.search(r"(?i)\r\nset-cookie: ([^;]+)", head)[1], location


async def flood(connections, seconds, send):
    """Sends on so many connections for so long, 1,200 times a second at most, and prints the number of responses by status."""
    statuses, begin, sent = collections.Counter(), time.monotonic(), 0
    end = begin + seconds

    async def one(number):
        nonlocal sent
        client = Client()
        while time.monotonic() < end:
            sent += 1
            await asyncio.sleep(max(0, begin + sent / 1200 - time.monotonic()))
            try:
                statuses[await send(client, number)] += 1
            except (OSError, asyncio.IncompleteReadError):
                statuses["closed"] += 1

    tasks = [asyncio.create_task(one(number)) for number in range(connections)]
    # Some wait for their turn.
    await asyncio.wait(tasks, timeout=seconds + 60)
    print(sum(statuses.values()), "requests:", ", ".join(f"{count} {status}" for status, count in sorted(statuses.items(), key=str)))


async def codes(kind, connections, seconds):
    state, cookie, _ = await Client().begin_login()

    async def send(client, _):
        login = (state, cookie) if kind == "one" else (await client.begin_login())[:2]
        return (await client.request("GET", f"/login/kakao/callback?code=invented-{random.getrandbits(64)}&state={login[0]}", {"Cookie": login[1]}))[0]

    await flood(connections, seconds, send)


def encoded(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


async def events(sandbox, connections, seconds):
    with urllib.request.urlopen(sandbox + "/.well-known/jwks.json") as response:
        known = json.load(response)["keys"][0]["kid"]
    event = {"https://schemas.openid.net/secevent/oauth/event-type/user-unlinked": {"subject": {"subject_type": "iss-sub", "iss": sandbox, "sub": "1"}}}

    async def send(client, number):
        key = f"invented-{random.getrandbits(64)}" if number % 3 == 1 else known
        app = "invented" if number % 3 == 2 else os.environ["KAKAO_REST_API_KEY"]
        claims = {"iss": sandbox, "aud": app, "sub": "1", "iat": int(time.time()), "jti": str(random.getrandbits(64)), "events": event}
        token = ".".join([encoded({"alg": "RS256", "typ": "secevent+jwt", "kid": key}), encoded(claims), encoded(random.randbytes(256))])
        return (await client.request("POST", "/kakao/account-events", {"Content-Type": "application/secevent+jwt"}, token.encode()))[0]

    await flood(connections, seconds, send)


async def others(send):
    """Sends 50 requests a second until SIGTERM, each when it is due, and prints their times."""
    stopped, times, failed, idle, tasks, number = asyncio.Event(), [], 0, [], set(), 0
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)

    async def one(number, due):
        nonlocal failed
        client = idle.pop() if idle else Client()
        try:
            if (await send(client, number))[0] != 200:
                failed += 1
        except (OSError, asyncio.IncompleteReadError):
            failed += 1
        times.append(time.monotonic() - due)
        idle.append(client)

    begin = time.monotonic()
    while not stopped.is_set():
        due = begin + number / 50
        await asyncio.sleep(max(0, due - time.monotonic()))
        task = asyncio.create_task(one(number, due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        number += 1
        if number == 1:
            print("ready", flush=True)
    await asyncio.wait(tasks, timeout=30) if tasks else None
    failed += len(tasks)
    times.sort()
    print(number, failed, *(f"{times[int((len(times) - 1) * part)] * 1000:.1f}" for part in (0.5, 0.99, 1)))


async def register(client, number):
    fields = {"Authorization": "Bearer " + os.environ["OPERATOR_KEY"], "Content-Type": "application/x-www-form-urlencoded"}
    name = f"{os.getpid()}-{number}"
    return await client.request("POST", "/v1/push/register", fields, f"uuid={number + 1}&device_id=phone-{name}&push_type=gcm&push_token={name}".encode())


async def callback(client, number):
    fields = {"Authorization": "KakaoAK " + os.environ["KAKAO_ADMIN_KEY"], "X-Kakao-Resource-ID": f"{os.getpid()}-{number}"}
    return await client.request("GET", f"/kakao/link/callback?CHAT_TYPE=MemoChat&HASH_CHAT_ID=147bp3dASTS0&TEMPLATE_ID=3135", fields)


async def tabs(address):
    begin, logins = time.monotonic(), []
    for user in ("7", "8"):
        client = Client(address)
        _, cookie, location = await client.begin_login("?login_hint=" + user)

        class NoRedirect(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_):
                return None

        try:
            urllib.request.build_opener(NoRedirect).open(location)
        except urllib.error.HTTPError as response:
            logins.append((client, cookie, response.headers["Location"].split(str(port), 1)[1]))
    cookies = {"Cookie": "; ".join(cookie for _, cookie, _ in logins)}
    for client, _, path in logins:
        status, head = await client.request("GET", path, cookies)
        if status != 302 or "ticket=" not in head:
            sys.exit(f"a login was answered {status}: {head}")
    print(f"{time.monotonic() - begin:.2f}")


if mode == "codes":
    asyncio.run(codes(sys.argv[3], int(sys.argv[4]), float(sys.argv[5])))
elif mode == "events":
    asyncio.run(events(sys.argv[3], int(sys.argv[4]), float(sys.argv[5])))
elif mode == "tabs":
    asyncio.run(tabs(sys.argv[3]))
else:
    asyncio.run(others(register if mode == "register" else callback))
