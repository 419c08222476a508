"""Eight users of an app send the worst templates, within their limits, while Kakao calls.

templates.py SECONDS LIMIT: each user sends the requests of a minute at once, on many connections, and further ones as fast
as the limits allow. Kakao makes 30 calls a second, each on a new connection. Fails if the 99th percentile of their durations is
above LIMIT ms, or if one is not answered 200.
"""
import asyncio, json, os, statistics, sys, time, urllib.parse
from bodies import compact, templates
from proof import call, check, finish, sandbox, server

seconds, limit = int(sys.argv[1]), float(sys.argv[2])
USERS, CONNECTIONS, BURST, RATE = 8, 20, 60, 30
# The time before the attack, for comparison.
QUIET = 3
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


# The largest that a body can have, and the largest that is inspected.
sizes = [[compact({"template_object": template}).encode() for _, template in templates(size)] for size in (65_000, 10_200)]
bodies = [body for pair in zip(*sizes) for body in pair if len(body) <= 65_536]
statuses = {}


async def attack(user, number, token, end):
    """Sends the share of one connection: its part of the burst, then its part of what the limit allows."""
    path = "/v2/api/talk/memo/default/send"
    fields = "Content-Type: application/json\r\n"
    reader, writer = await asyncio.open_connection(host, port, local_addr=(f"127.0.0.{10 + user}", 0))
    index = number
    sent = 0
    while time.monotonic() < end:
        status = await exchange(reader, writer, request("POST", path, "Bearer " + token, bodies[index % len(bodies)], fields))
        statuses[status] = statuses.get(status, 0) + 1
        index += CONNECTIONS
        sent += 1
        if sent >= BURST // CONNECTIONS:
            # One request a second and user.
            await asyncio.sleep(CONNECTIONS)
    writer.close()


durations, results = [], []


async def callback(number):
    start = time.monotonic()
    try:
        reader, writer = await asyncio.open_connection(host, port)
        path = f"/kakao/link/callback?CHAT_TYPE=MemoChat&HASH_CHAT_ID=room-{number}&TEMPLATE_ID=1"
        fields = f"X-Kakao-Resource-ID: call-{number}\r\n"
        results.append(await exchange(reader, writer, request("GET", path, "KakaoAK " + os.environ["KAKAO_ADMIN_KEY"], fields=fields)))
        writer.close()
    except (OSError, asyncio.IncompleteReadError) as error:
        results.append(error)
    durations.append((start, (time.monotonic() - start) * 1000))


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def main():
    login = lambda user: json.dumps({"user_id": user, "refresh": True, "scope": "talk_message"})
    tokens = [json.loads(call(sandbox + "/sandbox/login", login(user)))["access_token"] for user in range(1, USERS + 1)]
    # Each token is known, as of users who have called before.
    for user, token in enumerate(tokens):
        call(server + "/v1/user/access_token_info", headers={"Authorization": "Bearer " + token})
    begin = time.monotonic()
    calls = []
    attackers = []
    for number in range((QUIET + seconds) * RATE):
        await asyncio.sleep(max(0, begin + number / RATE - time.monotonic()))
        if number == QUIET * RATE:
            attacked = time.monotonic()
            for index in range(CONNECTIONS):
                attackers += [
                    asyncio.create_task(attack(user, index, token, attacked + seconds)) for user, token in enumerate(tokens)
                ]
        calls.append(asyncio.create_task(callback(number)))
    await asyncio.gather(*calls)
    for attacker in attackers:
        attacker.cancel()
    await asyncio.gather(*attackers, return_exceptions=True)

    quiet = [duration for start, duration in durations if start < attacked]
    during = [duration for start, duration in durations if start >= attacked]
    print(f"requests of {USERS} users by status: {dict(sorted(statuses.items()))}")
    for name, values in (("before the attack", quiet), ("during the attack", during)):
        print(
            f"callbacks {name}: {len(values)}, median {statistics.median(values):.0f} ms, "
            f"99 % within {percentile(values, 0.99):.0f} ms, slowest {max(values):.0f} ms"
        )
    check(all(result == 200 for result in results), f"callbacks were not answered 200: {[r for r in results if r != 200][:5]}")
    check(429 not in statuses, "the attack exceeds a limit of the server")
    check(sum(statuses.values()) >= USERS * BURST // 2, "the attack did not take place")
    check(percentile(during, 0.99) <= limit, f"99 % of the callbacks took {percentile(during, 0.99):.0f} ms; {limit:.0f} are allowed")


asyncio.run(main())
finish()
