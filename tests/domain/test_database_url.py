"""A database URL is read as the application reads it, and nothing that is wrong with one shows the password."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from soloist.domain.database_url import taken_apart
from soloist.domain.errors import PermanentError

ALL = {"user": "app", "password": "s3cret", "host": "db.example", "port": "5432", "dbname": "shop"}


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("postgresql://app:s3cret@db.example:5432/shop", ALL),
        ("postgres://app:s3cret@db.example:5432/shop\n", ALL),
        (" host=db.example port = 5432 user=app password='s3cret' dbname=shop ", ALL),
        ("postgresql://db.example", {"host": "db.example"}),
        ("postgresql://", {}),
        ("postgresql:///shop?host=/var/run/postgresql", {"dbname": "shop", "host": "/var/run/postgresql"}),
        ("postgresql://%2Fvar%2Frun/shop", {"host": "/var/run", "dbname": "shop"}),
        ("postgresql://app@a:1,b,[::1]:3/shop", {"user": "app", "host": "a,b,::1", "port": "1,,3", "dbname": "shop"}),
        ("postgresql://app:@h/d", {"user": "app", "password": "", "host": "h", "dbname": "d"}),
        ("postgresql://app:p%40s%2Fs%25@h/d", {"user": "app", "password": "p@s/s%", "host": "h", "dbname": "d"}),
        ("postgresql://app:p@ss@h/d", {"user": "app", "password": "p@ss", "host": "h", "dbname": "d"}),
        ("postgresql://app:a:b$^!@h/d", {"user": "app", "password": "a:b$^!", "host": "h", "dbname": "d"}),
        ("postgresql://h/d?schema=a%20b&schema=c&options=-c+x%3D1", {"host": "h", "dbname": "d", "schema": "c", "options": "-c x=1"}),
        ("postgresql://h/d?application_name=a+b", {"host": "h", "dbname": "d", "application_name": "a+b"}),
        (r"password='it\'s \\ a b' user=a\ b host=", {"password": r"it's \ a b", "user": "a b", "host": ""}),
        ("password='' user = app", {"password": "", "user": "app"}),
    ],
)  # fmt: skip
def test_every_piece_is_found_and_decoded(text: str, pieces: dict[str, str]) -> None:
    assert taken_apart(text) == pieces


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty: write postgresql://"),
        ("\n", "is empty"),
        ('"postgresql://app:s3cret@h/d"', "begins with a quotation mark"),
        ("mysql://app:s3cret@h/d", "begins with mysql://, which is not PostgreSQL's"),
        ("prisma://accelerate.example/?api_key=s3cret", "Prisma's own protocol over HTTP: give the direct URL"),
        ("prisma+postgres://localhost:1/?api_key=s3cret", "Prisma's own protocol"),
        ("postgresql+psycopg://app:s3cret@h/d", "names a driver of another language or library"),
        ("jdbc:postgresql://h/d?password=s3cret", "names a driver of another language or library"),
        ("postgresql://app:s3cret%@h/d", "password has a % that is not followed by two"),
        ("postgresql://app:s3cret%ff@h/d", "password is not UTF-8"),
        ("postgresql://app:s3cret%00@h/d", "password holds a zero byte"),
        ("postgresql://app:1#s3cret@h/d", "has a # in it, which ends a URL: write %23"),
        ("postgresql://app:s3cret/1@h/d", "host cannot be read; where the password holds one of"),
        ("postgresql://app:1/s3cret@h/d", "host cannot be read"),
        ("postgresql://app:1?s3cret=@h/d", "host cannot be read"),
        ("postgresql://app:p@w?s3cret=@h/d", "host cannot be read"),
        ("postgresql://app:p@w/s3cret@h/d", "host cannot be read"),
        ("postgresql://app:x@h:54x2/d", "host cannot be read"),
        ("postgresql://app:x@[::1/d", "host cannot be read"),
        ("s3cret", "neither a URL nor a string of keywords"),
        ("user=app password=s3cret and more", "neither a URL nor a string of keywords"),
        ("user=app password='s3cret", "neither a URL nor a string of keywords"),
        ("user=app password='s3cret'x", "neither a URL nor a string of keywords"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_to_write_and_no_secret(text: str, says: str) -> None:
    with pytest.raises(PermanentError) as raised:
        taken_apart(text)
    assert says in str(raised.value)
    assert "s3cret" not in str(raised.value)


TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1)


@given(TEXT, TEXT, TEXT)
@example("a@b", "p/w?#%[]:@", "d/b")
def test_whatever_is_encoded_comes_back(user: str, password: str, name: str) -> None:
    text = f"postgresql://{quote(user, safe='')}:{quote(password, safe='')}@h/{quote(name, safe='')}"
    assert taken_apart(text) == {"user": user, "password": password, "host": "h", "dbname": name}


@given(TEXT, TEXT)
def test_whatever_is_quoted_in_a_keyword_string_comes_back(user: str, password: str) -> None:
    quoted = [value.replace("\\", "\\\\").replace("'", "\\'") for value in (user, password)]
    assert taken_apart(f"user='{quoted[0]}' password='{quoted[1]}'") == {"user": user, "password": password}


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, f"postgresql://{text}", f"user={text}"):
        with suppress(PermanentError):
            taken_apart(whole)
