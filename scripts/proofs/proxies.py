"""What scripts/prove proxies does with the servers.

proxies.py calls PORT NAME COUNT RATE: makes Link callbacks as Kakao does until SIGTERM, and at least COUNT, each on a connection of its own,
over TLS to the host NAME or, with `-`, without TLS. Prints how many were made, lost and stored twice, the median and the slowest response in
ms, and the reasons of those that failed.
proxies.py uses PUBLIC_PORT INTERNAL_PORT LOG: checks what passes through a proxy. LOG is the log of one of the servers.
proxies.py sockets FILE PORT ... -- COMMAND: opens the sockets and runs the command with them, again and again, as systemd does with a service
that it restarts. Writes the process id of each run to FILE.
"""
import asyncio, collections, contextlib, http.client, json, os, signal, socket, ssl, struct, subprocess, sys, time, zlib
from proof import check, finish, wait_until

PUBLIC, INTERNAL = "push.example.com", "push.internal.example.com"
KAKAO_TIMEOUT = 3
operator_key, admin_key = os.environ.get("OPERATOR_KEY", ""), os.environ.get("KAKAO_ADMIN_KEY", "")
trust = ssl.create_default_context(cafile=os.environ.get("PROXY_CERTIFICATE"))


def sql(query):
    command = ["psql", "-qAt", "-F", " ", "-c", query, os.environ["DATABASE_URL"]]
    return [line.split(" ") for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()]


# MARK: Calls of Kakao


def link_callback(number, run):
    """Returns a call by GET or by POST, in turn."""
    parameters = f"CHAT_TYPE=MemoChat&HASH_CHAT_ID=147bp3dASTS0&TEMPLATE_ID=3135&run={run}&product_id={number}"
    head = f"Host: {PUBLIC}\r\nAuthorization: KakaoAK {admin_key}\r\nX-Kakao-Resource-ID: {run}-{number}\r\nUser-Agent: KakaoOpenAPI/1.0\r\n"
    if number % 2:
        head += f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(parameters)}\r\n"
        return f"POST /kakao/link/callback HTTP/1.1\r\n{head}\r\n{parameters}".encode()
    return f"GET /kakao/link/callback?{parameters} HTTP/1.1\r\n{head}\r\n".encode()


async def answer(port, name, request):
    """Returns the status of a request on a new connection."""
    secure = {} if name == "-" else {"ssl": trust, "server_hostname": name}
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **secure)
    try:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1])
    finally:
        writer.close()


async def make_calls(port, name, count, rate, run):
    """Returns the number of calls, those answered 200 with their latencies in seconds, and the reasons of the others."""
    latencies, reasons = {}, collections.Counter()
    enough = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, enough.set)

    async def call(number):
        begin = time.monotonic()
        try:
            status = await asyncio.wait_for(answer(port, name, link_callback(number, run)), KAKAO_TIMEOUT)
            latency = time.monotonic() - begin
            if status == 200 and latency <= KAKAO_TIMEOUT:
                latencies[number] = latency
            else:
                reasons[f"status {status} after {latency:.0f} s"] += 1
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            reasons[type(error).__name__] += 1

    begin, calls = time.monotonic(), []
    while len(calls) < count or not enough.is_set():
        calls.append(asyncio.create_task(call(len(calls))))
        await asyncio.sleep(max(0, begin + len(calls) / rate - time.monotonic()))
    await asyncio.gather(*calls)
    return len(calls), latencies, reasons


def run_calls(port, name, count, rate):
    run = f"run-{os.getpid()}"
    made, latencies, reasons = asyncio.run(make_calls(port, name, count, rate, run))

    def stored():
        """Returns the numbers in the bodies and queries that were stored, and those that were stored under the name of their own call."""
        rows = sql(f"SELECT args->>'product_id', key FROM link_callbacks WHERE args->>'run' = '{run}'")
        return collections.Counter(number for number, _ in rows), {int(number) for number, key in rows if key == f"{run}-{number}"}

    # Calls in the journal are stored when the server has reached PostgreSQL, at most 10 s later.
    deadline = time.monotonic() + 20
    while not (found := stored())[1] >= latencies.keys() and time.monotonic() < deadline:
        time.sleep(0.2)
    contents, own = found
    if missing := len(latencies.keys() - own):
        reasons["not stored"] = missing
    lost = made - len(latencies.keys() & own)
    times = sorted(latencies.values()) or [0]
    reason = ", ".join(f"{number} {name}" for name, number in reasons.items()) or "none"
    print(made, lost, sum(number > 1 for number in contents.values()), f"{times[len(times) // 2] * 1000:.0f} {times[-1] * 1000:.0f}", reason)


# MARK: What passes through a proxy


class Site:
    """A name of the proxy. Each request has a connection of its own, from an address of this machine."""

    def __init__(self, name, port):
        self.name, self.port = name, port

    def open(self, method, path, body=None, headers={}, source="127.0.0.1"):
        connection = http.client.HTTPConnection(self.name, self.port, timeout=60)
        plain = socket.create_connection(("127.0.0.1", self.port), 60, (source, 0))
        connection.sock = trust.wrap_socket(plain, server_hostname=self.name)
        # A body without a length is sent in chunks.
        connection.request(method, path, body, headers, encode_chunked=False)
        return connection.getresponse()

    def ask(self, *arguments, **more):
        """Returns the status, the body and the header section of a response."""
        response = self.open(*arguments, **more)
        return response.status, response.read(), response.headers


def use(public, internal, log):
    """Checks all that a proxy has to pass on, and prints a line for each part."""
    key = {"Authorization": "Bearer " + operator_key}

    # The public name leads to nothing of the operators.
    for path in ("/v1/pushes", "/v1/status", "/metrics", "/openapi.json", "/ui/"):
        status = public.ask("GET", path, headers=key)[0]
        check(status == 404, f"{path} is answered {status} at the public name")
        status = internal.ask("GET", path, headers=key)[0]
        check(status == 200, f"{path} is answered {status} at the internal name")
    print("  operators' paths            404 at the public name, 200 at the internal one")

    # A browser signs in, and presents its cookie. Older browsers name the page in Origin, which has the port, in place of Sec-Fetch-Site.
    for sender in ({"Sec-Fetch-Site": "same-origin"}, {"Origin": f"https://{INTERNAL}:{internal.port}"}):
        headers = {"Content-Type": "application/x-www-form-urlencoded", **sender}
        status, _, head = internal.ask("POST", "/v1/session", "key=" + operator_key, headers)
        cookie = head.get("Set-Cookie", "").split(";")[0]
        check(status == 204 and cookie.startswith("__Host-"), f"signing in with {sender} is answered {status} with the cookie {cookie!r}")
        status, body, _ = internal.ask("GET", "/v1/session", headers={"Cookie": cookie, **sender})
        check(status == 200 and b'"session":{' in body, f"the session is answered {status} with {body[:200]}")
    print("  the operators' page         signed in, with a __Host- cookie")

    check_addresses(public, internal, key, log)
    check_uploads(internal, key)
    check_events(internal, key)
    finish()


def check_addresses(public, internal, key, log):
    """Checks that the server knows the client's address, whatever the client says about it."""
    forged = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9", "X-Real-IP": "203.0.113.9"}
    status = internal.ask("PUT", "/v1/audiences/forged", b"1\n", {**key, **forged, "Content-Type": "text/plain"}, "127.0.0.2")[0]
    records = json.loads(internal.ask("GET", "/v1/audit?object=forged&limit=1", headers=key)[1])["items"]
    check(status in (200, 201) and records and records[0]["address"] == "127.0.0.2", f"answered {status}; the audit log has {records}")
    # Both servers get such a call.
    for number in range(4):
        headers = {**forged, "Authorization": "KakaoAK " + admin_key}
        status = public.ask("GET", f"/kakao/link/callback?CHAT_TYPE=MemoChat&product_id={number}", headers=headers, source="127.0.0.3")[0]
        check(status == 200, f"a callback is answered {status}")
    wait_until(10, "the access log", lambda: "/kakao/link/callback" in open(log).read())
    calls = [line for line in open(log) if "/kakao/link/callback" in line]
    check(all("client=127.0.0.3" in line for line in calls), f"the access log has another address: {calls}")
    check("203.0.113.9" not in open(log).read(), "the access log has the forged address")
    print("  the client's address        right in the access log and the audit log; a forged one does not count")


def picture(size):
    """Returns a PNG of this size in bytes."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 600, 400, 8, 2, 0, 0, 0))
    return head + chunk(b"IDAT", os.urandom(size - len(head) - 24)) + chunk(b"IEND", b"")


def check_uploads(internal, key):
    """Checks that large bodies pass in both directions."""
    users = 1_200_000
    ids = "".join(f"{number}\n" for number in range(1, users + 1)).encode()
    pieces = (ids[begin : begin + 65536] for begin in range(0, len(ids), 65536))
    begin = time.monotonic()
    status, body, _ = internal.ask("PUT", "/v1/audiences/large", pieces, {**key, "Content-Type": "text/plain"})
    check(status in (200, 201) and json.loads(body).get("users") == users, f"the audience is answered {status} {body[:200]}")
    print(f"  an audience                 {users:,} users, {len(ids) / 1e6:.1f} MB, in {time.monotonic() - begin:.1f} s")

    lines = 20_000
    form = '{"user_id":%d,"device_id":"phone-%d","push_type":"fcm","push_token":"%s-%d","expires_at":"never"}\n'
    devices = "".join(form % (number, number, "t" * 320, number) for number in range(1, lines + 1)).encode()
    begin = time.monotonic()
    status, body, _ = internal.ask("POST", "/v1/devices/import", devices, {**key, "Content-Type": "application/x-ndjson"})
    check(status == 200 and json.loads(body).get("lines") == lines, f"the import is answered {status} {body[:200]}")
    print(f"  an import                   {lines:,} devices, {len(devices) / 1e6:.1f} MB, in {time.monotonic() - begin:.1f} s")
    status, body, _ = internal.ask("GET", "/v1/devices/export?reason=proof", headers=key)
    check(status == 200 and body.count(b"\n") == lines, f"the export is answered {status} with {len(body)} bytes")
    print(f"  an export                   {body.count(10):,} devices, {len(body) / 1e6:.1f} MB")

    # images.max_bytes
    image = picture(5 << 20)
    status, body, _ = internal.ask("POST", "/v1/images", image, {**key, "Content-Type": "image/png"})
    check(status == 201 and json.loads(body).get("bytes") == len(image), f"the image is answered {status} {body[:200]}")
    print(f"  an image                    {len(image):,} bytes")


def check_events(internal, key):
    """Checks that events of a push arrive while it is sent, and not only at its end."""
    users = 800
    internal.ask("PUT", "/v1/audiences/few", "".join(f"{number}\n" for number in range(1, users + 1)), {**key, "Content-Type": "text/plain"})
    push = {"audience": {"audience": "few"}, "skip_unknown": False, "users_per_second": 200, "message": {"for_gcm": {"custom_field": {"a": "b"}}}}
    status, body, _ = internal.ask("POST", "/v1/pushes", json.dumps(push), {**key, "Content-Type": "application/json"})
    check(status in (201, 202), f"the push is answered {status} {body[:200]}")
    begin = time.monotonic()
    response = internal.open("GET", f"/v1/pushes/{json.loads(body)['id']}/events", headers=key)
    arrivals = []
    while line := response.readline():
        if line.startswith(b"data: "):
            arrivals.append((time.monotonic() - begin, json.loads(line[6:])["state"]))
    shown = ", ".join(f"{state} after {after:.1f} s" for after, state in arrivals)
    check(len(arrivals) >= 3 and arrivals[0][0] < 1 and arrivals[1][1] != "done" and arrivals[1][0] < 3, f"events arrived late: {shown}")
    check(arrivals and arrivals[-1][1] == "done", f"the last event is missing: {shown}")
    print(f"  events of a push            {len(arrivals)}, the first after {arrivals[0][0]:.1f} s, the last after {arrivals[-1][0]:.1f} s")


# MARK: Sockets that are kept


def keep_sockets(file, ports, command):
    listeners = []
    for port in ports:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(4096)
        listeners.append(listener)
    child = 0

    def stop(*_):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    while True:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            # systemd passes sockets on as the descriptors from 3 on (sd_listen_fds(3)). Copies above them first: a socket may be one of these.
            copies = [os.dup(listener.fileno()) for listener in listeners]
            high = [os.dup2(copy, 100 + index) for index, copy in enumerate(copies)]
            for index, copy in enumerate(high):
                os.dup2(copy, 3 + index, inheritable=True)
            os.closerange(3 + len(high), 200)
            os.environ.update(LISTEN_FDS=str(len(high)), LISTEN_PID=str(os.getpid()))
            os.execvp(command[0], command)
        with open(file + ".new", "w") as output:
            output.write(str(child))
        os.replace(file + ".new", file)
        os.waitpid(child, 0)


mode, arguments = sys.argv[1], sys.argv[2:]
if mode == "calls":
    run_calls(int(arguments[0]), arguments[1], int(arguments[2]), int(arguments[3]))
elif mode == "uses":
    use(Site(PUBLIC, int(arguments[0])), Site(INTERNAL, int(arguments[1])), arguments[2])
else:
    end = arguments.index("--")
    keep_sockets(arguments[0], [int(port) for port in arguments[1:end]], arguments[end + 1 :])
