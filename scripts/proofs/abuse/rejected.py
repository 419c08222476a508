"""One address sends requests that are rejected, as many at once as its connections carry, while Kakao calls.

rejected.py SECONDS LIMIT: 250 connections of the address send 64 KiB each and are reset, again and again: requests without a
route, some with the longest paths, and requests without a key. Kakao makes 30 calls a second, each on a new connection. Fails if the 99th percentile of their durations is above LIMIT ms, or if one is not answered 200.
"""
import asyncio, multiprocessing, os, socket, struct, sys, time
from kakao import host, measure, port
from proof import check, finish

seconds, limit = int(sys.argv[1]), float(sys.argv[2])
CONNECTIONS, SIZE = 250, 65_536
RESET = struct.pack("ii", 1, 0)


def requests(target):
    """As many requests as fit."""
    one = f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    return one * (SIZE // len(one))


KINDS = [requests(target) for target in ("/nothing", "/" * 8_000, "/v1/devices", "/" + "%2f" * 2_000, "/kakao/link/callback")]


def attack(sent):
    """Runs in a process of its own, which leaves the processors to the others."""
    os.nice(10)
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        connections = []
        for _ in range(CONNECTIONS):
            connection = socket.create_connection((host, int(port)), source_address=("127.0.0.5", 0))
            connection.setblocking(False)
            number += 1
            try:
                sent.value += connection.send(KINDS[number % len(KINDS)])
            except BlockingIOError:
                pass
            connections.append(connection)
        time.sleep(0.05)
        for connection in connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            connection.close()


async def main():
    sent = multiprocessing.Value("L", 0)
    attacker = multiprocessing.Process(target=attack, args=(sent,))
    await measure(seconds, limit, attacker.start)
    attacker.join()
    print(f"the attack sent {sent.value / 1e6:.0f} MB")
    check(sent.value >= CONNECTIONS * SIZE, "the attack did not take place")


asyncio.run(main())
finish()
