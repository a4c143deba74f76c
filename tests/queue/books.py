"""What the database itself notes while real workers are at it, and what must hold of it and of the receiver after every test.

Triggers write the notes, in the very transactions that they are of: so they are true whatever reply was lost, and whatever
the clocks of workers and receivers say. ``accepted`` has a row for each time that a row was done, ``reclaimed`` one for each
claim that was taken over: when its lease ended, and the moment by which whoever took it judged that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from tests.cluster.backend import Received

ACCEPTED = """
CREATE TABLE public.accepted (id bigint, worker text);
-- What was given up leaves the table too.
CREATE FUNCTION public.note_accepted() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_catalog AS $$
BEGIN
    INSERT INTO public.accepted SELECT OLD.id, OLD.claimed_by
    WHERE NOT EXISTS (SELECT FROM soloist.dead_items AS d WHERE d.id = OLD.id);
    RETURN NULL;
END $$;
CREATE TRIGGER note_accepted AFTER DELETE ON soloist.work_items FOR EACH ROW EXECUTE FUNCTION public.note_accepted();
"""
RECLAIMED = """
CREATE TABLE public.reclaimed (ended timestamptz NOT NULL, at timestamptz NOT NULL);
-- A row that is taken over for the first time is due from the moment by which its lease was judged; later it may wait.
CREATE FUNCTION public.note_reclaimed() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_catalog AS $$
BEGIN
    INSERT INTO public.reclaimed VALUES (OLD.lease_until, least(NEW.due_at, clock_timestamp()));
    RETURN NULL;
END $$;
CREATE TRIGGER note_reclaimed AFTER UPDATE ON soloist.work_items FOR EACH ROW WHEN (NEW.reclaims > OLD.reclaims)
EXECUTE FUNCTION public.note_reclaimed();

CREATE FUNCTION public.note_reclaimed_by_sidecar() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_catalog AS $$
BEGIN
    INSERT INTO public.reclaimed VALUES (OLD.held_until, statement_timestamp());
    RETURN NULL;
END $$;
CREATE TRIGGER note_reclaimed AFTER UPDATE ON soloist.claims FOR EACH ROW WHEN (OLD.fence <> NEW.fence)
EXECUTE FUNCTION public.note_reclaimed_by_sidecar();
"""
OF_THE_USER = """
CREATE FUNCTION public.note_delivered() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_catalog AS $$
BEGIN
    INSERT INTO public.accepted VALUES ((NEW."payload" ->> 'n')::bigint, OLD."claimedBy");
    RETURN NULL;
END $$;
CREATE TRIGGER note_delivered AFTER UPDATE ON app."WebhookDelivery" FOR EACH ROW
WHEN (OLD."status" <> 'DELIVERED' AND NEW."status" = 'DELIVERED') EXECUTE FUNCTION public.note_delivered();

CREATE FUNCTION public.note_reclaimed_inline() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_catalog AS $$
BEGIN
    INSERT INTO public.reclaimed VALUES (OLD."claimUntil" AT TIME ZONE 'UTC', statement_timestamp());
    RETURN NULL;
END $$;
CREATE TRIGGER note_reclaimed AFTER UPDATE ON app."WebhookDelivery" FOR EACH ROW
WHEN (OLD."claimFence" <> NEW."claimFence") EXECUTE FUNCTION public.note_reclaimed_inline();
"""
LATE = "SELECT extract(epoch FROM at - ended)::float8 FROM public.reclaimed ORDER BY 1"
LEFT = """
SELECT 'claims', count(*) FROM soloist.work_items
WHERE fence IS NOT NULL OR lease_until IS NOT NULL OR claimed_by IS NOT NULL
UNION ALL SELECT 'claims in the sidecar', count(*) FROM soloist.claims WHERE fence IS NOT NULL OR worker IS NOT NULL"""
LEFT_OF_THE_USER = """
UNION ALL SELECT 'orphans in the sidecar', count(*) FROM soloist.claims AS k WHERE NOT EXISTS (
    SELECT FROM app."WebhookDelivery" AS q
    WHERE q."id" = substr(k.key, strpos(k.key, ':') + 1) AND q."status" = 'PENDING')
UNION ALL SELECT 'rows that are running', count(*) FROM app."WebhookDelivery"
WHERE "status"::text NOT IN ('PENDING', 'DELIVERED', 'FAILED')
UNION ALL SELECT 'claims in the row', count(*) FROM app."WebhookDelivery" AS q
WHERE coalesce(to_jsonb(q) ->> 'claimFence', to_jsonb(q) ->> 'claimedBy') IS NOT NULL"""
MADE = """SELECT to_regclass('app."WebhookDelivery"') IS NOT NULL"""
"""Whether the test has made the user's table."""


def left_behind(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """What may not be there once all workers have gone away, whatever happened to their rows; nothing, as it should be."""
    (made,) = connection.execute(MADE).fetchone() or (False,)
    counts = connection.execute(LEFT + (LEFT_OF_THE_USER if made else "")).fetchall()
    return {what: count for what, count in counts if count}


def told_as_repeats(found: Mapping[int, Sequence[Received]], *, in_order: bool = True) -> None:
    """Whatever came again came as the same attempt, under the same key and a higher fence; and no two rows share a key.

    ``in_order`` is False where a sender froze: what it was about to send may arrive when it wakes, after its successor's.
    """
    for requests in found.values():
        assert len({each.header("Idempotency-Key") for each in requests}) == 1
        assert {each.header("Soloist-Attempt") for each in requests} == {"1"}
        fences = [int(each.header("Soloist-Fence") or 0) for each in requests]
        assert (fences if in_order else sorted(fences)) == sorted(set(fences))
    keys = {requests[0].header("Idempotency-Key") for requests in found.values()}
    assert len(keys) == len(found)
