"""Makes generated requests valid where the OpenAPI document cannot say what is valid."""

import itertools
import json

import schemathesis
from schemathesis import GenerationMode
from schemathesis.core.parameters import ParameterLocation

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


requests = itertools.count()


@schemathesis.hook
def before_call(context, case, kwargs):
    # Each request has an address of its own, so that those with invalid keys do not slow down the others. Hypothesis gives `random` the
    # same seed for each example; a multiple of an odd number does not recur in 2^24 requests.
    address = next(requests) * 0x9E3779 % 2**24
    case.headers["X-Forwarded-For"] = "10." + ".".join(map(str, address.to_bytes(3)))
    is_valid = case.meta is None or case.meta.generation.mode == GenerationMode.POSITIVE
    if is_valid:
        make_valid(case)
    if case.media_type == FORM and isinstance(case.body, dict):
        # A form has no null, and its structured values are JSON.
        case.body = {
            name: json.dumps(value) if isinstance(value, (list, dict)) else value
            for name, value in case.body.items()
            if value is not None
        }
    if has_invalid_body(case) and (is_absent(case.body) or not case.body):
        # An invalid body such as null would be sent as none, which may be valid.
        case.body, case.media_type = [1], JSON


def make_valid(case):
    case.body = with_integers(case.body)
    if case.media_type == "text/plain":
        case.body = "\n".join(with_integers(line) for line in case.body.splitlines())
    body = case.body if isinstance(case.body, dict) else {}
    # A cursor is the `next` of an earlier response.
    case.query.pop("cursor", None)
    # A key may be used for one request only.
    case.headers.pop("Idempotency-Key", None)
    alternatives = case.operation.schema.raw_schema["paths"][case.path][case.method.lower()]["security"]
    schemes = {scheme for alternative in alternatives for scheme in alternative}
    if "kakaoToken" in schemes:
        # An operator names the user of a relayed call.
        fields = case.query if case.method in ("GET", "DELETE") else body
        fields |= {"target_id_type": "user_id", "target_id": 1}
    if "userToken" in schemes:
        # An operator names the user, in one place.
        if case.method == "POST" and not body:
            case.body = body = {}
            case.media_type = "application/json"
        fields = case.query if case.method in ("GET", "DELETE") else body
        user = "uuid" if case.path.startswith(("/v1/push", "/v2/push")) else "user_id"
        for name in (user, "push_type") if case.method == "DELETE" else (user,):
            body.pop(name, None)
        case.query.pop(user, None)
        if fields.get("uuids") is None:
            fields.pop("uuids", None)
            fields[user] = 1
    if case.operation.definition.raw["operationId"] in ("copyPush", "createKey"):
        # The times are in order, and in the future.
        for name in ("send_at", "expires_at"):
            body.pop(name, None)
    if body.get("kind") == "advertising":
        # Advertising begins with its mark.
        body["kind"] = "informational"
    if case.operation.definition.raw["operationId"] == "createKey":
        # A key has a role or scopes.
        body.pop("role", None)
        body["scopes"] = body.get("scopes") or ["read"]
    if case.operation.definition.raw["operationId"] == "createPush":
        # The audience exists, the times are in order, and a user that is not known can be named only by its id. There are
        # no testers.
        body.pop("to_testers", None)
        if "audience" in (body.get("audience") or {"audience": ""}):
            body["audience"] = {"everyone": True}
        # The audience and the pushes that `except` names must exist too.
        if isinstance(body.get("except"), dict) and body["except"].keys() != {"tags_any"}:
            body["except"] = {"tags_any": ["staff"]}
        for name in ("send_at", "expires_at", "skip_unknown"):
            body.pop(name, None)
    if "operation" in case.query:
        # One that leaves audit records.
        case.query["operation"] = "cancelPush"
    if case.operation.definition.raw["operationId"] == "replayWebhooks":
        # Either one webhook or those of a time.
        for name in ("id", "until"):
            body.pop(name, None)
        body["since"] = "2000-01-01T00:00:00Z"


def has_invalid_body(case):
    part = case.meta.components.get(ParameterLocation.BODY) if case.meta else None
    return part is not None and part.mode == GenerationMode.NEGATIVE and case.media_type in (FORM, JSON, None)


def is_absent(body):
    return type(body).__name__ == "NotSet"


def with_integers(value):
    if isinstance(value, str) and value.isdecimal() and len(value) == 19:
        # The pattern of user ids allows numbers above 2^63 - 1.
        return value[:18]
    if isinstance(value, dict):
        return {name: with_integers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [with_integers(element) for element in value]
    # For JSON Schema 2.0 is an integer, for this server it is not.
    return int(value) if isinstance(value, float) and value.is_integer() else value


@schemathesis.serializer("application/secevent+jwt", "text/csv", "application/x-ndjson")
def text(context, value):
    return str(value).encode()
