"""What a process says of itself on its health port."""

from __future__ import annotations

import urllib.error
import urllib.request


def asked(port: int, page: str = "/readyz") -> tuple[int, str]:
    """Status and text; 0 where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as unwell:
        return unwell.code, unwell.read().decode()
    except OSError:
        return 0, ""
