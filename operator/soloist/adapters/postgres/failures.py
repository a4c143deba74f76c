"""What PostgreSQL said, as an exception of ours, decided in one place by SQLSTATE.

A statement that the server refused did nothing, since each is a transaction of its own: ``sent`` is False. Where the
connection went away it may have committed, and ``sent`` is True. Refusals part in two: those that another row of the same
statement need not share (a constraint, a value, whatever a trigger does or does wrong: ``RowRefused``), and those that a
person must lift first. A right that is missing is one of the latter wherever it is missing, since it is so for all rows;
but for a policy of row-level security, which looks at what is written to this one.
Only the server's own first sentence is repeated; its detail may quote the row.

A connection that is not made is worth another try either way, but a server that answers and refuses is told from one
that is away: time alone seldom mends a name, an account or a password.
"""

import re

import psycopg

from soloist.domain.errors import PermanentError, SoloistError, TransientError

# By their first two characters. Whatever is not here is a row's own: classes 22, 23, 27, 44, P0, and any code that a
# trigger made up.
LATER = {"40": False, "53": False, "55": False, "25": False, "57": True, "58": True, "08": True, "F0": True, "XX": True}
A_PERSON = frozenset({"0A", "26", "28", "3D", "3F", "42", "54"})
CANCELED = "57014"
READ_ONLY = "25006"
FORBIDDEN = "42501"
ABSENT = frozenset({"42P01", "42883", "3F000", "42703"})  # a table, a function, a schema, a column

OPTION = "--database (SOLOIST_DATABASE)"
WORK, STANDALONE = "allow_work", "allow_standalone"
"""What grants the schema soloist to whoever works rows, and to whoever has its leases and jobs on rows."""

# Of a failed connection libpq keeps the SQLSTATE to itself. In its text a server's word is known by what comes before it:
# the severity, in the server's language, and two blanks.
_SERVERS_WORD = re.compile(r"failed: (?:\w+:  (\S.*)|fe_sendauth: (no password supplied))")
_PASSES = re.compile(
    r"the database system is|too many|connection slots|no more connections|terminat|login has been failing|cannot connect"
    r"|timeout|paused",
    re.IGNORECASE,
)

NO_WRITES = (
    "it is a standby, or default_transaction_read_only is on. What has to be written waits until it takes writes; where "
    "another server is the primary, let the URL name that one, or all hosts with target_session_attrs=read-write."
)


class RowRefused(PermanentError):
    """A constraint, a trigger or a value stands in the way of what a statement wanted to write; nothing was written."""

    def __init__(self, message: str, *, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


def translated(error: psycopg.Error, where: str, *, role: str = "role", grant: str = WORK) -> SoloistError:
    """``where`` is the database as messages call it; ``role`` who asks it; ``grant`` what such a one needs of our schema."""
    code, said = error.sqlstate, first_line(error)
    if code is None:
        if isinstance(error, psycopg.DataError):
            return RowRefused(f"{where} was not asked: {said}.", sqlstate="22000")
        if isinstance(error, psycopg.ProgrammingError | psycopg.NotSupportedError):
            return PermanentError(f"{where} was not asked: {said}.")
        return TransientError(f"{where} does not answer: {said}", sent=True)
    if code == CANCELED:
        return TransientError(f"{where} took too long: {said}", sent=False)
    if code == READ_ONLY:
        return TransientError(f"{where} takes no writes ({said}): {NO_WRITES}", sent=False)
    if code[:2] in LATER:
        return TransientError(f"{where} cannot do that now: {said}", sent=LATER[code[:2]])
    if code[:2] not in A_PERSON or _of_a_policy(error) or (code != FORBIDDEN and _in_a_function_of_theirs(error)):
        return RowRefused(f"{where} refuses: {said}", sqlstate=code)
    return PermanentError(f"{where} refuses: {said}{_remedy(code, said, role, grant)}")


def unreached(error: psycopg.Error, where: str, *, url: str = "its URL") -> TransientError:
    """Of a connection that was not made. ``url`` is where the database is named."""
    for words in _SERVERS_WORD.findall(str(error)):
        said = "".join(words).strip().removesuffix(".")
        if not _PASSES.search(said):
            return TransientError(
                f"{where} answers and refuses: {said}. Correct {url} if that is not on its way.", sent=False
            )
    return TransientError(f"{where} cannot be reached: {first_line(error)}.", sent=False)


def _of_a_policy(error: psycopg.Error) -> bool:
    """Whether a WITH CHECK of the table refuses the row. The server's sentence may be in any language, this name is not."""
    return error.sqlstate == FORBIDDEN and error.diag.source_function == "ExecWithCheckOptions"


def _in_a_function_of_theirs(error: psycopg.Error) -> bool:
    """Whether a function that is not ours was at it, as the server's context tells: a trigger of the users' table."""
    lines = (error.diag.context or "").splitlines()
    return any("PL/pgSQL" in line and "soloist." not in line for line in lines)


def first_line(error: BaseException) -> str:
    """The server's sentence, or libpq's; without a full stop."""
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    lines = (said or str(error)).strip().splitlines() or [type(error).__name__]
    return lines[0].strip().removesuffix(".")


def _remedy(code: str, said: str, role: str, grant: str) -> str:
    if code == FORBIDDEN:
        named = role.replace("'", "''")
        return f". Grant it: SELECT soloist.{grant}('{named}') covers the schema soloist; a table of your own needs its grants."
    if code in ABSENT and "soloist" in said:
        return ". Run soloist migrate, with a role that may change the schema."
    return "."
