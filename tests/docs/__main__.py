"""Writes the generated parts of docs/ again."""

from __future__ import annotations

from tests.docs.pages import DOCS, PAGES, renewed


def main() -> None:
    for page in PAGES:
        text = renewed(page)
        (DOCS / page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
