#!/bin/sh
# The program of the image kakao-push-server:dev: a development server whose ports can be published.
#
# The server listens at 127.0.0.1, as everywhere: the addresses that it prints are then right outside of the container, too, and the page opens
# without TLS, which it does for callers on the same machine only. socat takes what arrives at the container's address there.
set -eu
address=$(getent ahostsv4 "$(hostname)" | awk '{ print $1; exit }')
for port in 8080 8443 9090; do
    socat "TCP4-LISTEN:$port,bind=$address,fork" "TCP4:127.0.0.1:$port" &
done
exec push-server dev --https-port 8443 --sandbox-port 9090 "$@"
