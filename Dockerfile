# The first stage builds the wheel and the virtual environment. The second contains only the virtual environment and the
# queue file.
# Everything that pip fetches is pinned by hash. tests/packaging/test_container.py performs these steps.
#   docker build .                            the core is compiled, which takes half a minute: docs/compiled.md
#   docker build --build-arg COMPILED=0 .     the core is interpreted, and half as fast
# The base images are named by tag and not by digest: a digest here would keep fixes of the distribution out of later
# builds, and would be that of one registry. To build from checked images, name them by digest, which
# docker buildx imagetools inspect python:3.11-slim --format '{{.Manifest.Digest}}' prints:
#   docker build --build-arg BUILD_IMAGE=python:3.11@sha256:... --build-arg RUN_IMAGE=python:3.11-slim@sha256:... .
ARG BUILD_IMAGE=python:3.11
ARG RUN_IMAGE=python:3.11-slim
FROM ${BUILD_IMAGE} AS build
ARG COMPILED=1
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 HATCH_BUILD_HOOKS_ENABLE=$COMPILED
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
RUN pip install --require-hashes --requirement requirements-build.lock
RUN python -m venv /opt/schedulerd \
    && /opt/schedulerd/bin/pip install --require-hashes --requirement requirements.lock
COPY LICENSE README.md pyproject.toml ./
COPY config ./config
COPY schedulerd ./schedulerd
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/schedulerd/bin/pip install --no-deps --no-index /dist/*.whl

FROM ${RUN_IMAGE}
ENV PATH=/opt/schedulerd/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /opt/schedulerd /opt/schedulerd
COPY config/queues.yaml /etc/schedulerd/queues.yaml
WORKDIR /
USER 10001:10001
# gRPC for resource managers, and HTTP for /metrics, /livez and /readyz: the defaults of SCHEDULERD_GRPC_BIND and
# SCHEDULERD_HTTP_BIND. If you change the latter, change the health check too.
EXPOSE 3333 9080
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import http.client, sys; c = http.client.HTTPConnection('127.0.0.1', 9080, timeout=2); c.request('GET', '/livez'); sys.exit(c.getresponse().status != 200)"]
# What an image is made of: docker build --build-arg REVISION="$(git rev-parse HEAD)" --build-arg SOURCE=URL .
# The version is that of the package, which `make dist` compares. Last, so that other labels make no other layers.
ARG VERSION=0.1.0
ARG REVISION=
ARG SOURCE=
LABEL org.opencontainers.image.title="schedulerd" \
    org.opencontainers.image.description="A deterministic batch scheduler daemon" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION" \
    org.opencontainers.image.source="$SOURCE"
ENTRYPOINT ["schedulerd"]
CMD ["serve", "--config", "/etc/schedulerd/queues.yaml"]
