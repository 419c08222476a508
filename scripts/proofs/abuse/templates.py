"""Eight users of an app send the worst templates, within their limits, while Kakao calls.

templates.py SECONDS LIMIT: each user sends the requests of a minute at once, on many connections, and further ones as fast
as the limits allow. Kakao makes 30 calls a second, each on a new connection. Fails if the 99th percentile of their durations is
above LIMIT ms, or if one is not answered 200.
"""
import asyncio, json, sys, time
from bodies import compact, templates
from kakao import exchange, host, measure, port, request
from proof import call, check, finish, sandbox, server

seconds, limit = int(sys.argv[1]), float(sys.argv[2])
USERS, CONNECTIONS, BURST = 8, 20, 60
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


async def main():
    login = lambda user: json.dumps({"user_id": user, "refresh": True, "scope": "talk_message"})
    tokens = [json.loads(call(sandbox + "/sandbox/login", login(user)))["access_token"] for user in range(1, USERS + 1)]
    # Each token is known, as of users who have called before.
    for user, token in enumerate(tokens):
        call(server + "/v1/user/access_token_info", headers={"Authorization": "Bearer " + token})
    attackers = []

    def begin():
        end = time.monotonic() + seconds
        for index in range(CONNECTIONS):
            attackers.extend(asyncio.create_task(attack(user, index, token, end)) for user, token in enumerate(tokens))

    await measure(seconds, limit, begin)
    for attacker in attackers:
        attacker.cancel()
    await asyncio.gather(*attackers, return_exceptions=True)
    print(f"requests of {USERS} users by status: {dict(sorted(statuses.items()))}")
    check(429 not in statuses, "the attack exceeds a limit of the server")
    check(sum(statuses.values()) >= USERS * BURST // 2, "the attack did not take place")


asyncio.run(main())
finish()
