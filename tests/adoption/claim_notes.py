"""What the database itself notes of claims: each that was made, and each look for due rows, whether it found any or none.

The moments are those by which the statements judged, so how long a busy machine kept a worker from looking is told apart from what
it did when it looked. A row that is free and due goes to the first look that has room for it: ``passed_over`` counts the
looks that began once it was, and were over before its claim began. ``pace`` is how often somebody looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg

CLAIM_NOTES = r"""
CREATE TABLE claim_notes (key text, fence bigint, worker text, at timestamptz, was bigint, was_held_until timestamptz);
CREATE FUNCTION note_claim() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_catalog AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO claim_notes VALUES (NEW.key, NEW.fence, NEW.worker, statement_timestamp(), NULL, NULL);
    ELSIF NEW.fence IS NOT NULL AND NEW.fence IS DISTINCT FROM OLD.fence THEN
        INSERT INTO claim_notes VALUES (NEW.key, NEW.fence, NEW.worker, statement_timestamp(), OLD.fence, OLD.held_until);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER note_claim AFTER INSERT OR UPDATE ON soloist.claims FOR EACH ROW EXECUTE FUNCTION note_claim();
-- Nothing is lost with it that a crash would not have lost anyway, and an idle queue does not wait for the disk.
CREATE UNLOGGED TABLE look_notes (at timestamptz, ended timestamptz, seen text, live bigint);
CREATE FUNCTION note_look() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_catalog AS $$
BEGIN
    INSERT INTO look_notes SELECT statement_timestamp(), clock_timestamp(), substring(current_query() FROM '\."([^"]+)" AS q '),
        (SELECT count(*) FROM soloist.claims WHERE fence IS NOT NULL AND held_until > statement_timestamp());
    RETURN NULL;
END $$;
CREATE TRIGGER note_look AFTER INSERT ON soloist.claims FOR EACH STATEMENT EXECUTE FUNCTION note_look();
"""
_EMPTY = "NOT EXISTS (SELECT FROM claim_notes AS c WHERE c.at = {}.at)"
PASSED_OVER = f"""
SELECT count(*) FROM look_notes AS l WHERE l.seen = %s AND l.at >= %s AND l.ended < %s AND l.live < %s AND {_EMPTY.format("l")}
"""
PACE = f"""
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY l.at - l.before) FROM (
    SELECT k.at, lag(k.at) OVER (ORDER BY k.at) AS before FROM look_notes AS k WHERE k.seen = %s) AS l
JOIN look_notes AS e ON e.at = l.before AND e.seen = %s AND {_EMPTY.format("e")}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A claim: when it was made, and until when the one was held that it took over, if it did."""

    at: datetime
    was_held_until: datetime | None


def claim_of(connection: psycopg.Connection[Any], fence: int) -> Noted:
    query = "SELECT at, was_held_until FROM claim_notes WHERE fence = %s"
    ((at, until),) = connection.execute(query, (fence,)).fetchall()
    return Noted(at=at, was_held_until=until)


def passed_over(
    connection: psycopg.Connection[Any], table: str, free: datetime, claimed: datetime, *, live: int = 1
) -> int:
    """Looks of nobody who found a row, while fewer than ``live`` claims of that database were alive."""
    ((count,),) = connection.execute(PASSED_OVER, (table, free, claimed, live)).fetchall()
    return int(count)


def pace(connection: psycopg.Connection[Any], table: str) -> timedelta:
    """From a look at that table that found nothing to the next one, whoever's, in the middle of all of them."""
    ((middle,),) = connection.execute(PACE, (table, table)).fetchall()
    assert isinstance(middle, timedelta), f"nobody looked at {table}"
    return middle
