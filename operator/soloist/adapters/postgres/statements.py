"""The SQL of this package: one statement a file, in sql/, with psycopg's %(name)s where a value goes."""

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> bytes:
    """The text of sql/NAME.sql. It may name nothing outside the schemas soloist and pg_catalog by itself."""
    return files(__package__).joinpath("sql", f"{name}.sql").read_bytes()
