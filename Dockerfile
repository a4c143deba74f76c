# The image of controller, worker and command line. It runs as nobody in particular, on a read-only root, and nothing in it
# needs a shell. It builds from any base with Python 3.11 and its venv module in python3:
#
#   docker build -t soloist .
#   make image                                  # where no registry can be reached: on a base made by debootstrap
#   docker build --build-arg BASE=registry.example/python:3.11 --build-arg PIP_INDEX_URL=https://pypi.example/simple -t soloist .
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS build
# Wheels that lie in .cache/wheels are taken from there; with PIP_NO_INDEX=1 nothing is asked of an index.
ARG PIP_INDEX_URL
ARG PIP_NO_INDEX
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PIP_FIND_LINKS=/wheels
COPY .ci/requirements-build.txt .ci/requirements-image.txt .cache/wheel[s] /wheels/
# The environment that is shipped has no pip: another one, which stays behind, installs into it.
RUN ["python3", "-m", "venv", "/build"]
RUN ["python3", "-m", "venv", "--without-pip", "/opt/soloist"]
RUN ["/build/bin/pip", "install", "--require-hashes", "-r", "/wheels/requirements-build.txt"]
RUN ["/build/bin/pip", "--python", "/opt/soloist/bin/python3", "install", "--no-compile", "--require-hashes", "--only-binary", ":all:", "-r", "/wheels/requirements-image.txt"]
COPY pyproject.toml README.md LICENSE NOTICE /src/
COPY operator /src/operator
RUN ["/build/bin/pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", "/dist", "/src"]
RUN ["/build/bin/pip", "--python", "/opt/soloist/bin/python3", "install", "--no-compile", "--no-deps", "--no-index", "--find-links", "/dist", "soloist"]
COPY .ci/slim.py /build/slim.py
RUN ["/opt/soloist/bin/python3", "/build/slim.py"]

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="soloist" \
      org.opencontainers.image.description="A Kubernetes operator that launches every scheduled run once, however many replicas are up." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/soloist /opt/soloist
# What is compiled was compiled above; nothing is written at run time.
ENV PATH=/opt/soloist/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/opt/soloist/bin/soloist"]
