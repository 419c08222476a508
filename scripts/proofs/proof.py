"""What the proofs in Python share: requests with the keys of the environment, checks, and waiting for a condition."""
import json, os, ssl, sys, time, urllib.request

server, sandbox = os.environ.get("SERVER_URL", ""), os.environ.get("SANDBOX_URL", "")
trust = ssl.create_default_context(cafile=os.environ.get("SANDBOX_CERTIFICATE"))
failures = []


def check(condition, text):
    if not condition:
        failures.append(text)


def finish():
    """Prints the checks that failed, and exits."""
    for text in failures[:20]:
        print("failed: " + text)
    sys.exit(1 if failures else 0)


def call(url, body=None, method=None, kind="application/json", headers={}):
    """Returns the body of a response with a 2xx status."""
    request = urllib.request.Request(url, data=body.encode() if body is not None else None, method=method, headers=headers)
    if body is not None:
        request.add_header("Content-Type", kind)
    with urllib.request.urlopen(request, timeout=60, context=trust if url.startswith("https") else None) as response:
        return response.read().decode()


def operator(path, body=None, method=None, kind="application/json", headers={}):
    """Calls the server as an operator."""
    return call(server + path, body, method, kind, {"Authorization": "Bearer " + os.environ["OPERATOR_KEY"], **headers})


def upload_audience(users):
    """Stores the users 1, 2 and so on as the audience `all`."""
    operator("/v1/audiences/all", "".join(f"{number}\n" for number in range(1, users + 1)), "PUT", "text/plain")


def send_to_audience(headers={}, **push):
    """Creates a push to that audience, and returns its path."""
    push = {"audience": {"audience": "all"}, "skip_unknown": False, **push}
    return "/v1/pushes/" + json.loads(operator("/v1/pushes", json.dumps(push), headers=headers))["id"]


def show(push):
    return json.loads(operator(push))


def check_reached(users):
    """Checks that the only push of the run has reached every user once, and returns the counts of the sandbox."""
    reached = json.loads(call(sandbox + "/sandbox/reached"))["items"][0]
    check(reached["users"] == users and reached["more_than_once"] == 0, f"users were missed or reached twice: {reached}")
    return f"{reached['users']}, {reached['more_than_once']} of them more than once"


def wait_until(limit, what, condition):
    """Waits until the condition holds, and returns its value; ends the proof after `limit` seconds."""
    last = time.monotonic() + limit
    while not (found := condition()):
        if time.monotonic() > last:
            sys.exit(f"timed out waiting for {what}")
        time.sleep(0.05)
    return found
