"""Prisma's DATABASE_URL means to us what it means to Prisma; libpq's parameters go on to libpq; others are named."""

from __future__ import annotations

from typing import Any

import pytest

from soloist.adapters.postgres.url import DatabaseUrl, database_url
from soloist.domain.errors import PermanentError

BASE = "postgresql://app:s3cret@db.example:5432/shop"


def read(query: str) -> DatabaseUrl:
    return database_url(f"{BASE}?{query}")


@pytest.mark.parametrize(
    ("query", "means"),
    [
        ("", {"schema": None, "pooler": False, "connections": 10, "prepared": 100, "pool_timeout": 10, "connect_timeout": 5}),
        ("schema=app", {"schema": "app"}),
        ("schema=", {"schema": None}),
        ("pgbouncer=true", {"pooler": True, "prepared": 0}),
        ("pgbouncer=true&statement_cache_size=50", {"prepared": 0}),
        ("pgbouncer=false", {"pooler": False, "prepared": 100}),
        ("statement_cache_size=0", {"prepared": 0, "pooler": False}),
        ("connection_limit=1", {"connections": 1}),
        ("pool_timeout=3&connect_timeout=15&socket_timeout=30", {"pool_timeout": 3, "connect_timeout": 15, "statement_timeout": 30}),
        ("pool_timeout=0&connect_timeout=0&socket_timeout=0", {"pool_timeout": 10, "connect_timeout": 5, "statement_timeout": 10}),
        ("max_connection_lifetime=60&max_idle_connection_lifetime=7", {"lifetime": 60, "idle": 7}),
        ("single_use_connections=true&uselibpqcompat=true", {"connections": 10}),
    ],
)  # fmt: skip
def test_what_prisma_reads_is_heeded_and_not_passed_on(query: str, means: dict[str, Any]) -> None:
    url = read(query)
    assert {name: getattr(url, name) for name in means} == means
    assert url.libpq == {"user": "app", "password": "s3cret", "host": "db.example", "port": "5432", "dbname": "shop"}


@pytest.mark.parametrize(
    ("query", "passed"),
    [
        ("sslmode=require&channel_binding=require", {"sslmode": "require", "channel_binding": "require"}),
        ("sslmode=verify-full&sslrootcert=/ca.pem", {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}),
        ("sslmode=require&sslcert=../ca.pem", {"sslmode": "require"}),
        ("sslmode=require&sslcert=/ca.pem&sslaccept=accept_invalid_certs", {"sslmode": "require"}),
        ("sslcert=/ca.pem&sslaccept=strict", {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}),
        ("sslmode=require&sslaccept=strict", {"sslmode": "verify-full", "sslrootcert": "system"}),
        ("sslmode=disable&sslaccept=strict", {"sslmode": "disable"}),
        ("sslcert=/c.pem&sslkey=/k.pem&sslpassword=x", {"sslcert": "/c.pem", "sslkey": "/k.pem", "sslpassword": "x"}),
        ("sslpassword=x", {}),
        ("sslmode=no-verify", {"sslmode": "require"}),
        ("ssl=true", {"sslmode": "require"}),
        ("ssl=true&sslmode=verify-ca", {"sslmode": "verify-ca"}),
        ("application_name=shop", {"application_name": "shop"}),
        ("options=-c%20geqo%3Doff", {"options": "-c geqo=off"}),
        ("target_session_attrs=read-write&keepalives_idle=5", {"target_session_attrs": "read-write", "keepalives_idle": "5"}),
    ],
)  # fmt: skip
def test_what_libpq_knows_goes_on_to_it_in_its_own_words(query: str, passed: dict[str, str]) -> None:
    url = read(query)
    own = {"user", "password", "host", "port", "dbname"}
    assert {name: value for name, value in url.libpq.items() if name not in own} == passed


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("conection_limit=3", 'a parameter "conection_limit", which is not known: write connection_limit.'),
        ("zzz=3", 'a parameter "zzz", which is not known: take it out. Known are Prisma\'s (application_name, '),
        ("Schema=app", 'a parameter "Schema", which is not known: write schema.'),
        ("pgbouncer=yes", 'pgbouncer is "yes", and must be true or false'),
        ("connection_limit=0", 'connection_limit is "0", and must be a whole number from 1 to 1000'),
        ("connection_limit=many", 'connection_limit is "many", and must be'),
        ("pool_timeout=-1", 'pool_timeout is "-1", and must be a whole number from 0 to 86400'),
        ("pool_timeout=1e9", "pool_timeout"),
        ("sslaccept=maybe", 'sslaccept is "maybe", and must be strict or accept_invalid_certs'),
        ("sslidentity=/id.p12&sslpassword=s3cret", "PKCS #12 file, which libpq cannot read"),
    ],
)
def test_what_cannot_be_heeded_is_refused_by_name(query: str, says: str) -> None:
    with pytest.raises(PermanentError) as raised:
        read(query)
    assert says in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_a_url_never_shows_its_password() -> None:
    url = read("schema=app&sslkey=/k&sslpassword=hush")
    assert "s3cret" not in repr(url) + str(url) + url.name
    assert "hush" not in repr(url)
    assert url.name == "The database shop at db.example"
