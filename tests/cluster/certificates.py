"""A certificate authority of one test cluster, and what it signs. EC keys: all of them take a tenth of a second."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.binaries import openssl

SERVER_NAMES = (
    "IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """`ca` signs, `server` is what 127.0.0.1 shows (API server and proxies alike), `accounts` signs ServiceAccount tokens."""

    ca: Pair
    server: Pair
    accounts: Path


def make_authority(directory: Path) -> Authority:
    directory.mkdir(parents=True, exist_ok=True)
    ca = pair(directory, "ca")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30")
    run("req", "-x509", *curve, "-subj", "/CN=soloist-test-ca", "-keyout", ca.key, "-out", ca.certificate)
    accounts = directory / "accounts.key"
    run("genrsa", "-out", accounts, "2048")
    server = signed(directory, "server", "/CN=kube-apiserver", ca, f"subjectAltName={SERVER_NAMES}\n")
    return Authority(ca=ca, server=server, accounts=accounts)


def signed(directory: Path, name: str, subject: str, ca: Pair, extensions: str) -> Pair:
    made = pair(directory, name)
    request, wanted = directory / f"{name}.csr", directory / f"{name}.ext"
    wanted.write_text(extensions)
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    run("req", "-new", *curve, "-subj", subject, "-keyout", made.key, "-out", request)
    signer = ("-CA", ca.certificate, "-CAkey", ca.key, "-CAcreateserial", "-days", "30", "-extfile", wanted)
    run("x509", "-req", "-in", request, *signer, "-out", made.certificate)
    return made


def pair(directory: Path, name: str) -> Pair:
    return Pair(certificate=directory / f"{name}.crt", key=directory / f"{name}.key")


def run(*arguments: str | Path) -> None:
    done = subprocess.run([openssl(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"openssl {' '.join(map(str, arguments[:3]))} failed: {done.stderr.strip()[-400:]}")
