"""The processor time of an event loop for the worst request of each operation.

cpu.py PID DOCUMENT LIMIT FEEDBACK_SECRET: sends the worst requests of 64 KiB to the server with that process id, for each
operation of the OpenAPI document, and prints those that cost most. Fails if one costs more than LIMIT ms of a loop's processor
time, the median of 21; above it, the lowest of three medians.
"""
import http.client, json, os, statistics, sys, time, urllib.parse
from bodies import compact, filled, raw_form, raw_json, templates, texts, tokens
from proof import call, check, finish, operator, sandbox, server

pid, document = int(sys.argv[1]), json.load(open(sys.argv[2]))
limit, feedback = float(sys.argv[3]), sys.argv[4]

SIZE = 65_536
# Of a request target, and of a head, less the lines that every request has.
TARGET, HEAD = 8_000, 15_000
ROUNDS = 21
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
USER = 1

# Bodies that are streamed, and not read as a whole: uploads, imports and exports.
STREAMED = {"text/csv", "text/plain", "application/x-ndjson", "multipart/form-data", "image/png"}


# MARK: Values of a schema


def resolved(schema):
    while "$ref" in schema:
        found = document
        for part in schema["$ref"][2:].split("/"):
            found = found[part]
        schema = found
    return schema


def kinds(schema):
    """The schemas that a value may have."""
    schema = resolved(schema)
    for choice in ("oneOf", "anyOf"):
        if choice in schema:
            return [kind for part in schema[choice] for kind in kinds(part)]
    return [schema]


def schema_of(parameter):
    """The schema of a parameter, which may be a text of JSON."""
    return parameter.get("schema") or parameter["content"][JSON]["schema"]


def valid(schema, name=""):
    """A small valid value."""
    schema = kinds(schema)[0]
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if name in ("template", "template_object"):
        return {"object_type": "text", "text": "Hi", "link": {"web_url": "https://example.com"}}
    if name == "target_id_type":
        return "user_id"
    if kind == "integer":
        return max(1, schema.get("minimum", 1))
    if kind == "number":
        return 1
    if kind == "boolean":
        return False
    if kind == "array":
        return [valid(schema.get("items", {}))] * max(1, schema.get("minItems", 1))
    if kind == "object":
        required = schema.get("required", [])
        return {key: valid(value, key) for key, value in schema.get("properties", {}).items() if key in required}
    text = {"uuid": "01926f3e-7a5b-7c3d-9e1f-0a2b3c4d5e6f", "date-time": "2099-01-01T00:00:00Z"}.get(schema.get("format"))
    if text:
        return text
    if schema.get("pattern", "").startswith("^[1-9]"):
        return "1"
    return "a" * max(1, schema.get("minLength", 1))


def worst(schema, name, size):
    """Values that are expensive to check."""
    if name in ("template", "template_object"):
        for bytes in (10_200, size):
            yield from ((f"{name} of {bytes}: {kind}", value) for kind, value in templates(bytes))
    for schema in kinds(schema):
        kind = schema.get("type")
        if kind == "array":
            item = valid(schema.get("items", {}))
            most = min(schema.get("maxItems", size), size // (len(json.dumps(item)) + 1))
            yield "valid elements", [item] * most
            for part in kinds(schema.get("items", {})):
                if part.get("type") == "string" and "enum" not in part:
                    most = min(schema.get("maxItems", size), size // 12)
                    yield "different texts", [f"a{number}" for number in range(most)]
                    yield "long texts", ["가" * min(part.get("maxLength", 100), 100)] * (size // 400)
                if part.get("type") == "integer":
                    yield "different numbers", [number + 1 for number in range(min(schema.get("maxItems", size), size // 6))]
                    yield "long numbers", [9_000_000_000_000_000_000 + number for number in range(size // 20)]
                    yield "texts of numbers", [str(number) for number in range(1, size // 9)]
            yield "empty elements", [""] * (size // 3)
        elif kind == "object" or "properties" in schema:
            for key, part in schema.get("properties", {}).items():
                for title, value in worst(part, key, size - 100):
                    yield f"{key}: {title}", {**(valid(schema) if isinstance(valid(schema), dict) else {}), key: value}
            yield "members", {f"a{number}": "" for number in range(min(schema.get("maxProperties", size), size // 10))}
            yield "long members", {f"a{number}": "가" * 300 for number in range(size // 920)}
            yield "members as texts", {f"a{number}": "x" for number in range(size // 12)}
    yield from texts(size)


def as_text(value):
    return value if isinstance(value, str) else compact(value)


def bodies(content):
    """The bodies of an operation, with their media type."""
    schema = resolved(content.get(JSON, content.get(FORM, {})).get("schema", {}))
    fields = {key: part for key, part in schema.get("properties", {}).items()}
    base = valid(schema)
    base = base if isinstance(base, dict) else {}
    if "target_id" in fields:
        base.update(target_id_type="user_id", target_id=USER)
    if set(content) == {JSON} and not fields:
        # The body is a template.
        for bytes in (10_200, SIZE - 100):
            for title, value in templates(bytes):
                yield f"template of {bytes}: {title}", JSON, as_text(value)
    if JSON in content:
        for title, text in raw_json(SIZE - 16):
            yield "JSON, " + title, JSON, text
        for name, part in fields.items():
            for title, value in worst(part, name, SIZE - 1200):
                yield f"JSON, {name}: {title}", JSON, as_text({**base, name: value})
    if FORM in content:
        for title, text in raw_form(SIZE - 16, list(fields)):
            yield "form, " + title, FORM, text
        for name, part in fields.items():
            for title, value in worst(part, name, SIZE - 1200):
                yield f"form, {name}: {title}", FORM, urllib.parse.urlencode({**{key: as_text(other) for key, other in base.items()}, name: as_text(value)})
    if "application/secevent+jwt" in content:
        for title, text in tokens(16_000):
            yield "token, " + title, "application/secevent+jwt", text


def within(text, size):
    """A text of at most `size` bytes in UTF-8."""
    return text.encode()[:size].decode(errors="ignore").encode()


# MARK: Requests


def target(path, parameters, values={}):
    query = []
    for parameter in parameters:
        name, value = parameter["name"], values.get(parameter["name"])
        if parameter["in"] == "path":
            given = feedback if name == "secret" else as_text(value if value is not None else valid(schema_of(parameter), name))
            path = path.replace("{%s}" % name, urllib.parse.quote(given, safe=""))
        elif parameter["in"] == "query" and "*" not in name:
            if value is None and name in ("target_id", "target_id_type"):
                value = USER if name == "target_id" else "user_id"
            if value is not None or parameter.get("required"):
                query.append((name, as_text(value if value is not None else valid(schema_of(parameter), name))))
    return path + ("?" + urllib.parse.urlencode(query) if query else "")


def requests(path, method, operation):
    """The worst requests of an operation: a title, a target, header fields and a body."""
    parameters = operation.get("parameters", [])
    plain = target(path, parameters)
    glue = "&" if "?" in plain else "?"
    content = operation.get("requestBody", {}).get("content", {})
    required = operation.get("requestBody", {}).get("required")
    yield "nothing", plain, {}, None
    room = TARGET - len(plain) - 10
    names = [parameter["name"] for parameter in parameters if parameter["in"] == "query"]
    for title, text in raw_form(room, names):
        yield "query, " + title, plain + glue + text[:room].rstrip("%"), {}, None
    for parameter in parameters:
        if parameter["in"] in ("query", "path") and parameter["name"] != "secret":
            for title, value in worst(schema_of(parameter), parameter["name"], room // 3):
                text = target(path, parameters, {parameter["name"]: value})
                while len(text) > TARGET:
                    value = as_text(value)
                    value = value[: len(value) * TARGET // len(text) - 1]
                    text = target(path, parameters, {parameter["name"]: value})
                yield f"{parameter['in']}, {parameter['name']}: {title}", text, {}, None
        elif parameter["in"] == "header":
            yield f"header, {parameter['name']}", plain, {parameter["name"]: "a" * HEAD}, None
    yield "a long cookie", plain, {"Cookie": "a=" + "b" * HEAD}, None
    yield "many cookies", plain, {"Cookie": filled("a=b; ", HEAD)}, None
    yield "many fields", plain, {f"X-{number}": "a" * 140 for number in range(90)}, None
    yield "a long content type", plain, {"Content-Type": filled("a;", HEAD)}, "{}"
    for title, kind, text in bodies(content):
        yield title, plain, {"Content-Type": kind}, within(text, SIZE if kind != "application/secevent+jwt" else 16_000)


def credential(operation):
    """A credential with which calls reach Kakao: the token of a user, if it is accepted."""
    kinds = {kind for choice in operation.get("security", []) for kind in choice}
    if "adminKey" in kinds:
        return "KakaoAK " + os.environ["KAKAO_ADMIN_KEY"]
    if "kakaoToken" not in kinds:
        return "Bearer " + os.environ["OPERATOR_KEY"]
    login = {"user_id": USER, "refresh": True, "scope": "friends talk_message"}
    return "Bearer " + json.loads(call(sandbox + "/sandbox/login", json.dumps(login)))["access_token"]


# MARK: Processor time


class Loops:
    """The threads of the server's event loops, and the connection to it."""

    def __init__(self):
        self.host = urllib.parse.urlparse(server).netloc
        self.connection = None
        self.threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
        before = {thread: self.time(thread) for thread in self.threads}
        for _ in range(100):
            self.connection = None
            self.send("GET", "/healthz", {}, None)
        # One for each core.
        self.threads.sort(key=lambda thread: before[thread] - self.time(thread))
        self.threads = self.threads[: os.cpu_count()]

    def time(self, thread):
        """The processor time in ms."""
        with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
            return int(file.read().split()[0]) / 1e6

    def sleeps(self, thread):
        with open(f"/proc/{pid}/task/{thread}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "S"

    def settle(self):
        """Waits until both loops wait for events. Their time is up to date then."""
        for _ in range(2000):
            if all(self.sleeps(thread) for thread in self.threads):
                return
            time.sleep(0.0002)

    def send(self, method, path, fields, body):
        for attempt in range(3):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection(self.host, timeout=30)
                self.connection.request(method, path, body, fields)
                response = self.connection.getresponse()
                response.read()
                if response.will_close:
                    self.connection = None
                return response.status
            except (ConnectionError, http.client.HTTPException):
                # An early response may close the connection while the body is sent.
                self.connection = None
        return 0

    def measure(self, method, path, fields, body):
        """Sends a request, and returns its status and the time of the loop that served it, in ms."""
        self.settle()
        before = [self.time(thread) for thread in self.threads]
        status = self.send(method, path, fields, body)
        self.settle()
        return status, max(self.time(thread) - start for thread, start in zip(self.threads, before))


loops = Loops()
begin = time.monotonic()
costs, count, skipped = [], 0, []
for path, methods in document["paths"].items():
    for method, operation in methods.items():
        id = operation["operationId"]
        content = set(operation.get("requestBody", {}).get("content", {}))
        answers = {kind for answer in operation["responses"].values() for kind in answer.get("content", {})}
        if content & STREAMED or answers & {"application/x-ndjson", "text/csv"}:
            skipped.append(id)
            continue
        # A new media type needs its worst bodies above.
        check(content <= {JSON, FORM, "application/secevent+jwt"}, f"{id}: say what its worst body of {content} is")
        worst_of = (0, "", 0)
        fields = {"Authorization": credential(operation)}
        for title, text, more, body in requests(path, method, operation):
            send = lambda: loops.measure(method.upper(), text, {**fields, **more}, body)
            count += 1
            status, cost = send()
            if status == 401 and fields["Authorization"] != "Bearer " + os.environ["OPERATOR_KEY"]:
                # The request before it has logged the user out.
                fields = {"Authorization": credential(operation)}
                status, cost = send()
            # Most requests are far below: three tell.
            for _ in range(2):
                cost = min(cost, send()[1])
            if cost > worst_of[0] or cost > limit / 2:
                median = lambda: statistics.median(send()[1] for _ in range(ROUNDS))
                cost = median()
                # What other programs of the machine add to the time differs from one median to the next.
                if cost > limit:
                    cost = min(cost, median(), median())
            if cost > limit:
                check(False, f"{id}: {title} costs {cost:.1f} ms, answered {status}")
            worst_of = max(worst_of, (cost, title, status))
        costs.append((*worst_of, id))
        if "-v" in sys.argv:
            print(f"{time.monotonic() - begin:.0f} s, {count}: {worst_of[0]:6.2f}  {id}: {worst_of[1]} ({worst_of[2]})", flush=True)
        # Nothing that was created by the way is sent meanwhile.
        operator("/v1/sender/stop", json.dumps({"reason": "the proof"}))
costs.sort(reverse=True)
print(f"{count} requests of {len(costs)} operations; without {', '.join(skipped)}. The worst, in ms of a loop's processor time:")
for cost, title, status, id in costs if "-v" in sys.argv else costs[:15]:
    print(f"  {cost:6.2f}  {id}: {title} ({status})")
finish()
