"""The API server's other face, which it shows to API servers beside it: an authority of its own, a certificate, the flags."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.cluster.certificates import Pair, pair, run, signed

NAME = "front-proxy-client"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxy:
    """`ca` signs nothing but `front`, by which API servers beside the API server know it."""

    ca: Pair
    front: Pair

    @property
    def flags(self) -> list[str]:
        return [
            f"--requestheader-client-ca-file={self.ca.certificate}",
            f"--proxy-client-cert-file={self.front.certificate}",
            f"--proxy-client-key-file={self.front.key}",
            f"--requestheader-allowed-names={NAME}",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
        ]


def make_front_proxy(folder: Path) -> FrontProxy:
    ca = pair(folder, "front-ca")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30")
    run("req", "-x509", *curve, "-subj", "/CN=front-ca", "-keyout", ca.key, "-out", ca.certificate)
    return FrontProxy(ca=ca, front=signed(folder, "front", f"/CN={NAME}", ca, ""))
