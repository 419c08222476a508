"""The clients of the attacks.

clients.py hold PORT COUNT silent|plain|tls AUTHORITY: holds that many connections until it is killed. Each has served one
GET, except silent ones. clients.py kakao PORT KEY: makes a call of Kakao's, and another one on the same connection at SIGHUP;
fails if the connection was closed. clients.py witness PORT: sends a request every 100 ms on one connection until it is killed, and prints
the duration of each in ms.
"""
import signal, socket, ssl, sys, time

mode, port = sys.argv[1], int(sys.argv[2])

def connect():
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    if "tls" in sys.argv:
        context.check_hostname = True
        connection = context.wrap_socket(connection, server_hostname="localhost")
    return connection

def serve(connection):
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.endswith(b"\r\n\r\nok"):
        piece = connection.recv(4096)
        if not piece:
            sys.exit("the server closed the connection before its response")
        answer += piece

if mode == "hold":
    context = ssl.create_default_context(cafile=sys.argv[5]) if "tls" in sys.argv else None
    held = []
    for _ in range(int(sys.argv[3])):
        held.append(connect())
        if "silent" not in sys.argv:
            serve(held[-1])
    print("ready", flush=True)
    signal.pause()
elif mode == "kakao":
    connection, head = connect(), f"Host: localhost\r\nAuthorization: KakaoAK {sys.argv[3]}\r\n\r\n"
    for number in range(2):
        connection.sendall(f"GET /kakao/link/callback?CHAT_TYPE=MemoChat&HASH_CHAT_ID=c{number} HTTP/1.1\r\n{head}".encode())
        answer = connection.recv(4096)
        if not answer.startswith(b"HTTP/1.1 200"):
            sys.exit(f"the answer was {answer[:100]!r}")
        if number == 0:
            signal.signal(signal.SIGHUP, lambda *_: None)
            print("ready", flush=True)
            signal.pause()
else:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    connection = connect()
    while True:
        begin = time.monotonic()
        serve(connection)
        print("%.1f" % ((time.monotonic() - begin) * 1000), flush=True)
        time.sleep(0.1)
