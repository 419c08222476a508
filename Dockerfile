# The server and the sandbox in one image: build with `docker build --tag kakao-push-server .`

FROM swift:6.3-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libcurl4-openssl-dev libpq-dev libssl-dev pkg-config \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
# The packages first: they change seldom, and Docker keeps what has not changed.
COPY Package.swift ./
RUN swift package resolve
COPY Sources Sources
COPY Tests Tests
RUN swift build --configuration release --static-swift-stdlib --product push-server \
    && swift build --configuration release --static-swift-stdlib --product kakao-sandbox \
    && mkdir /app \
    && cp "$(swift build --configuration release --static-swift-stdlib --show-bin-path)/push-server" /app/ \
    && cp "$(swift build --configuration release --static-swift-stdlib --show-bin-path)/kakao-sandbox" /app/
COPY migrations /app/migrations

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libcurl4 libpq5 libssl3 libstdc++6 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --no-create-home --uid 10001 push
COPY --from=build /app /app
WORKDIR /app
ENV PATH=/app:$PATH \
    HTTP_HOST=0.0.0.0
USER push
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["push-server", "health"]
ENTRYPOINT ["push-server"]
CMD ["serve"]
