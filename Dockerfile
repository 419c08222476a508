# The server and the sandbox in one image. Build it with `docker build --tag kakao-push-server .`

FROM swift:6.3-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libpq-dev libssl-dev libyaml-dev pkg-config \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
# Dependencies first: they rarely change, so that Docker can cache them.
COPY Package.swift ./
RUN swift package resolve
COPY Sources Sources
COPY Tests Tests
# The migrations are a part of the program.
COPY migrations migrations
# A static Swift program has 50,000 relocations at startup. Their packed list takes a few KiB of memory instead of 1
# MiB. Only lld writes packed relocations; glibc reads them since 2.36 (Debian 12). Functions have sections of their own,
# so that the linker leaves out each one that is not used.
ENV BUILD="--configuration release --static-swift-stdlib -Xswiftc -use-ld=lld -Xlinker -z -Xlinker pack-relative-relocs \
    -Xswiftc -Xfrontend -Xswiftc -function-sections"
RUN swift build $BUILD --product push-server \
    && swift build $BUILD --product kakao-sandbox \
    && mkdir /app \
    && cp "$(swift build $BUILD --show-bin-path)/push-server" /app/ \
    && cp "$(swift build $BUILD --show-bin-path)/kakao-sandbox" /app/ \
    && cp /usr/libexec/swift/linux/swift-backtrace-static /app/

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libpq5 libssl3 libstdc++6 libyaml-0-2 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --no-create-home --user-group --uid 10001 push \
    && install --directory --owner push --group push --mode 0700 /var/lib/push-server/journal
VOLUME /var/lib/push-server/journal
COPY --from=build /app /app
WORKDIR /app
ENV PATH=/app:$PATH \
    HTTP_HOST=0.0.0.0 \
    JOURNAL_DIRECTORY=/var/lib/push-server/journal
# Crash reports show the location but no memory: registers would be printed with the bytes that they point to.
ENV SWIFT_BACKTRACE=enable=yes,registers=none,images=none,threads=crashed,sanitize=yes,color=no,interactive=no,swift-backtrace=/app/swift-backtrace-static
# The revision of the source, which the metrics show.
ARG REVISION=unknown
ENV PUSH_SERVER_REVISION=$REVISION
LABEL org.opencontainers.image.revision=$REVISION
# A numeric user, so that Kubernetes can verify that it is not root (runAsNonRoot).
USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["push-server", "health"]
ENTRYPOINT ["push-server"]
CMD ["serve"]
