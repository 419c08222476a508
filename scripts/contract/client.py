"""Registers a device and sends a push with a Python client that is generated from /openapi.json.

usage: SERVER_URL=… OPERATOR_KEY=… client.py
"""

import os
import time

from kakao_push_server_client import AuthenticatedClient
from kakao_push_server_client.api.devices import list_devices, put_device
from kakao_push_server_client.api.pushes import create_push, get_push
from kakao_push_server_client.api.sender import start_sender
from kakao_push_server_client.models import (
    CreatePushRequest,
    Device,
    Problem,
    Push,
    PutDeviceRequest,
    UsersAudience,
)

client = AuthenticatedClient(base_url=os.environ["SERVER_URL"], token=os.environ["OPERATOR_KEY"])
user = 4242

registration = PutDeviceRequest.from_dict({"user_id": user, "push_type": "fcm", "push_token": "a-token-of-the-generated-client"})
device = put_device.sync("phone", client=client, body=registration)
assert isinstance(device, Device), device
devices = list_devices.sync(client=client, user_id=user)
assert [item.device_id for item in devices.items] == ["phone"], devices

# The requests of the fuzzer may have stopped it.
sender = start_sender.sync(client=client)
assert sender.state == "running", sender

message = {"for_gcm": {"custom_field": {"title": "Hello"}}}
request = CreatePushRequest(audience=UsersAudience(uuids=[user]), message=message, name="generated client")
push = create_push.sync(client=client, body=request, idempotency_key=f"generated-{os.getpid()}")
assert isinstance(push, Push), push

deadline = time.monotonic() + 30
while push.state != "done":
    assert time.monotonic() < deadline, push
    time.sleep(0.1)
    push = get_push.sync(push.id, client=client)
assert push.users.sent == 1, push

unknown = CreatePushRequest(audience=UsersAudience(uuids=[0]), message=message)
problem = create_push.sync(client=client, body=unknown)
assert isinstance(problem, Problem) and problem.field == "audience", problem
print(f"The generated client has sent push {push.id} to {push.users.sent} user.")
