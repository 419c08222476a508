"""Calls a server as Kakao does, at a constant rate over keep-alive connections, until SIGTERM.

Writes the names answered 200 to a file, and prints the counts and latencies.
"""
import asyncio, signal, sys, time

port, rate, connections, key, output = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
accepted, refused, broken, latencies = set(), 0, 0, []
calls = 0
stopping = False


def name(number):
    # 0 1 1 2 3 3: a third of the names are duplicates.
    return f"call-{number // 3 * 2 + (number % 3 + 1) // 2}"


async def call(due):
    global calls, refused, broken
    reader = writer = None
    while not stopping:
        await due.acquire()
        number, calls = calls, calls + 1
        begin = None
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            begin = time.monotonic()
            writer.write(
                f"GET /kakao/link/callback?CHAT_TYPE=MemoChat&HASH_CHAT_ID=147bp3dASTS0&TEMPLATE_ID=3135&product_id={number} HTTP/1.1\r\n"
                f"Host: localhost\r\nAuthorization: KakaoAK {key}\r\nX-Kakao-Resource-ID: {name(number)}\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if length:
                await reader.readexactly(int(length[0].split(b":")[1]))
            latencies.append(time.monotonic() - begin)
            if head.startswith(b"HTTP/1.1 200"):
                accepted.add(name(number))
            else:
                refused += 1
        except (OSError, asyncio.IncompleteReadError):
            if begin is not None:
                broken += 1
            if writer is not None:
                writer.close()
            reader = writer = None
            await asyncio.sleep(0.05)


async def main():
    global stopping

    def stop():
        global stopping
        stopping = True

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    due = asyncio.Semaphore(0)
    callers = [asyncio.create_task(call(due)) for _ in range(connections)]
    begin, issued = time.monotonic(), 0
    while not stopping:
        await asyncio.sleep(0.005)
        # Calls that were due while the server was down are skipped, not made later.
        while issued < (time.monotonic() - begin) * rate:
            issued += 1
            if due._value < connections:
                due.release()
    for _ in callers:
        due.release()
    await asyncio.gather(*callers)
    latencies.sort()
    with open(output, "w") as file:
        file.writelines(f"{text}\n" for text in sorted(accepted))
    last = len(latencies) - 1
    print(calls, len(latencies), len(accepted), refused, broken,
          *(f"{latencies[int(last * part)] * 1000:.1f}" for part in (0.5, 0.99, 1)))


asyncio.run(main())
