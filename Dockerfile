# Two images: the server with the sandbox, and `dev`, which also has PostgreSQL and runs `push-server dev`. docs/containers.md explains both.
#
#   docker build --tag kakao-push-server .
#   docker build --tag kakao-push-server:dev --target dev .

FROM swift:6.3-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libpq-dev libssl-dev libyaml-dev pkg-config \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
# Dependencies first: they rarely change, so that Docker can cache them. Package.resolved pins their commits, if there is one.
COPY Package.swift Package.resolved* ./
RUN swift package --scratch-path .build-static resolve
COPY Sources Sources
COPY Tests Tests
# The version and the migrations are parts of the program.
COPY VERSION ./
COPY migrations migrations
COPY scripts/lib.sh scripts/build-release scripts/
ARG REVISION=unknown
# Crash reports need the debug information, for the lines of functions. Compressed, it is a third of the size.
RUN programs=$(./scripts/build-release push-server kakao-sandbox) \
    && mkdir /app \
    && for name in push-server kakao-sandbox; do objcopy --compress-debug-sections "$programs/$name" "/app/$name" || exit; done \
    && cp /usr/libexec/swift/linux/swift-backtrace-static /app/

FROM debian:bookworm-slim AS runtime
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libpq5 libssl3 libstdc++6 libyaml-0-2 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 push \
    && useradd --no-create-home --gid push --uid 10001 push
WORKDIR /app
ENV PATH=/app:$PATH
# Crash reports show the location but no memory: registers would be printed with the bytes that they point to.
ENV SWIFT_BACKTRACE=enable=yes,registers=none,images=none,threads=crashed,sanitize=yes,color=no,interactive=no,swift-backtrace=/app/swift-backtrace-static
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["push-server", "health"]
ENTRYPOINT ["push-server"]

FROM runtime AS dev
# Each development server has a PostgreSQL of its own: that of the package would not be used.
RUN mkdir /etc/postgresql-common \
    && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf \
    && apt-get update \
    && apt-get install --yes --no-install-recommends --option Dpkg::Options::=--force-confold curl postgresql socat \
    && rm -rf /var/lib/apt/lists/* \
    && install --directory --owner push --group push --mode 0700 /var/lib/push-server
COPY deploy/dev-container.sh ./
COPY --from=build /app /app
# The database and the keys, in .local/.
WORKDIR /var/lib/push-server
VOLUME /var/lib/push-server
# PostgreSQL refuses to run as root.
USER 10001:10001
EXPOSE 8443 9090
ENTRYPOINT ["dev-container.sh"]
ARG REVISION=unknown
ARG VERSION=unknown
LABEL org.opencontainers.image.title="kakao-push-server dev" \
    org.opencontainers.image.version=$VERSION \
    org.opencontainers.image.revision=$REVISION

# The last stage is the default.
FROM runtime AS server
RUN install --directory --owner push --group push --mode 0700 /var/lib/push-server/journal
VOLUME /var/lib/push-server/journal
COPY --from=build /app /app
ENV HTTP_HOST=0.0.0.0 \
    JOURNAL_DIRECTORY=/var/lib/push-server/journal
# A numeric user, so that Kubernetes can verify that it is not root (runAsNonRoot).
USER 10001:10001
CMD ["serve"]
ARG REVISION=unknown
ARG VERSION=unknown
LABEL org.opencontainers.image.title=kakao-push-server \
    org.opencontainers.image.version=$VERSION \
    org.opencontainers.image.revision=$REVISION
