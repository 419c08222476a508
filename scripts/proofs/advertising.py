"""Sends the push, and watches it over the end and the beginning of the hours."""
import sys, time
from proof import check, check_reached, finish, send_to_audience, show, upload_audience, wait_until

users, end = int(sys.argv[1]), int(sys.argv[2])
begin = end + 60


def sleep_until(when):
    time.sleep(max(0, when - time.time()))


upload_audience(users)
if time.time() > end - 10:
    sys.exit("this machine took too long to start the server and to store the audience")
sleep_until(end - 10)
push = send_to_audience(
    users_per_second=20_000,
    kind="advertising",
    message={"for_gcm": {"notification": {"body": "(광고) Sale"}, "custom_field": {"marker": "advertising"}}},
)
sleep_until(end - 1)
before = show(push)["users"]["sent"]
sleep_until(end + 1)
at_end = show(push)
sleep_until(begin - 1)
at_night = show(push)
wait_until(10, "the push to continue", lambda: show(push)["users"]["sent"] > at_night["users"]["sent"])
continued = time.time() - begin
wait_until(users / 20_000 + 120, "the push to end", lambda: show(push)["state"] == "done")
print(f"""
  sent 1 s before the end     {before} of {users} users
  1 s and 59 s after it       {at_end['users']['sent']}, {at_night['users']['sent']}; waits until {at_night['waits_until']}
  continued                   {continued:.2f} s after the hours had begun
  users reached               {check_reached(users)}""")
check(before > 0, "nothing was sent before the end")
check(at_end["users"]["sent"] < users, "everything was sent before the end")
check(at_end["users"]["sent"] == at_night["users"]["sent"], "users were sent to after the end")
check(at_night["waits_until"] is not None, "the push does not say when it continues")
check(0 <= continued < 5, "the push continued late, or early")
finish()
