"""Kakao's calls, which must be answered in time whatever others send."""
import asyncio, os, statistics, time, urllib.parse
from proof import check, server

# Calls a second, and the seconds before the attack, for comparison.
RATE, QUIET = 30, 3
host, port = urllib.parse.urlparse(server).netloc.split(":")


def request(method, path, credential, body=b"", fields=""):
    return (
        f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {credential}\r\n{fields}Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def exchange(reader, writer, bytes):
    """Sends a request on a connection, and returns the status of the response."""
    writer.write(bytes)
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)
    await reader.readexactly(length)
    return int(lines[0].split()[1])


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def callback(number):
    """Makes a call on a new connection. Returns when it began, its duration in ms, and the status of the response, or an error."""
    start = time.monotonic()
    try:
        reader, writer = await asyncio.open_connection(host, port)
        path = f"/kakao/link/callback?CHAT_TYPE=MemoChat&HASH_CHAT_ID=room-{number}&TEMPLATE_ID=1"
        fields = f"X-Kakao-Resource-ID: call-{number}\r\n"
        result = await exchange(reader, writer, request("GET", path, "KakaoAK " + os.environ["KAKAO_ADMIN_KEY"], fields=fields))
        writer.close()
    except (OSError, asyncio.IncompleteReadError) as error:
        result = error
    return start, (time.monotonic() - start) * 1000, result


async def measure(seconds, limit, attack):
    """Makes calls for a while, and for so many seconds after it has called attack. Checks that 99 % of the latter were
    answered within limit ms, and all of them 200."""
    begin = time.monotonic()
    calls = []
    for number in range((QUIET + seconds) * RATE):
        await asyncio.sleep(max(0, begin + number / RATE - time.monotonic()))
        if number == QUIET * RATE:
            attacked = time.monotonic()
            attack()
        calls.append(asyncio.create_task(callback(number)))
    calls = await asyncio.gather(*calls)
    quiet = [duration for start, duration, _ in calls if start < attacked]
    during = [duration for start, duration, _ in calls if start >= attacked]
    for name, values in (("before the attack", quiet), ("during the attack", during)):
        print(
            f"callbacks {name}: {len(values)}, median {statistics.median(values):.0f} ms, "
            f"99 % within {percentile(values, 0.99):.0f} ms, slowest {max(values):.0f} ms"
        )
    wrong = [result for _, _, result in calls if result != 200]
    check(not wrong, f"callbacks were not answered 200: {wrong[:5]}")
    check(percentile(during, 0.99) <= limit, f"99 % of the callbacks took {percentile(during, 0.99):.0f} ms; {limit:.0f} are allowed")
