"""Open pages of operators: what their browsers ask of the server while nobody touches them.

usage: pages.py URL COUNT PUSH

Each page has one connection for its requests, and ten pages share an address. Half of the pages show the overview, half a push with its
event stream. Prints `open` once all are open, and runs until SIGTERM. Exits with 1 if a request failed.
"""
import asyncio, json, os, random, signal, sys, urllib.parse, urllib.request

url, count, push = sys.argv[1], int(sys.argv[2]), sys.argv[3]
host, port = urllib.parse.urlsplit(url).netloc.split(":")
# A key has at most 20 sessions; tabs of a browser share one.
sessions = 20
failures = []


def sign_in():
    request = urllib.request.Request(
        f"{url}/v1/session", json.dumps({"key": os.environ["OPERATOR_KEY"]}).encode(), {"Content-Type": "application/json", "Origin": url}
    )
    with urllib.request.urlopen(request) as response:
        return response.headers["Set-Cookie"].split(";")[0]


def request(path, cookie):
    # As banner.js: a status of the last second suffices.
    age = "Cache-Control: max-age=1\r\n" if path == "/v1/status" else ""
    return f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nCookie: {cookie}\r\n{age}Sec-Fetch-Site: same-origin\r\n\r\n".encode()


async def get(reader, writer, path, cookie):
    writer.write(request(path, cookie))
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:] if line)
    if "content-length" in fields:
        await reader.readexactly(int(fields["content-length"]))
    else:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            await reader.readexactly(size + 2)
        await reader.readexactly(2)
    if not head.startswith(b"HTTP/1.1 200"):
        failures.append(f"{path}: {head.splitlines()[0].decode()}")


async def page(number, cookie, opened):
    # The server bounds the connections of an address.
    address = f"127.0.1.{number // 10 + 1}", 0
    connection = await asyncio.open_connection(host, port, local_addr=address)
    if number % 2:
        events, asks = await asyncio.open_connection(host, port, local_addr=address)
        asks.write(request(f"/v1/pushes/{push}/events", cookie))
        head = await events.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            failures.append(f"events: {head.splitlines()[0].decode()}")
        asyncio.create_task(events.read(-1))
    opened.append(number)
    await asyncio.sleep(random.random() * 10)
    while True:
        try:
            await get(*connection, "/v1/status", cookie)
        except (asyncio.IncompleteReadError, ConnectionError):
            # The server closes connections that are idle, and a browser opens another one.
            connection = await asyncio.open_connection(host, port, local_addr=address)
            await get(*connection, "/v1/status", cookie)
        await asyncio.sleep(10)


async def run():
    cookies = [sign_in() for _ in range(sessions)]
    opened, ended = [], asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    tasks = []
    for number in range(count):
        tasks.append(asyncio.create_task(page(number, cookies[number % sessions], opened)))
        if number % 20 == 19:
            await asyncio.sleep(0.02)
    while len(opened) < count:
        await asyncio.sleep(0.1)
        for task in tasks:
            if task.done():
                task.result()
    print("open", flush=True)
    await ended.wait()
    lost = [task for task in tasks if task.done()]
    if failures or lost:
        sys.exit(f"{len(failures)} failed: {failures[:3]}; {len(lost)} pages ended")


asyncio.run(run())
