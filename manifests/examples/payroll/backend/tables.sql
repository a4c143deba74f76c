-- What the backend has already. A schedule stays active and moves from period to period.
CREATE TABLE schedules (
    id serial PRIMARY KEY,
    organisation_id integer NOT NULL,
    account varchar(34) NOT NULL,
    amount_cents bigint NOT NULL,
    every interval NOT NULL DEFAULT '1 month',
    status varchar(20) NOT NULL DEFAULT 'active',
    next_run_timestamp timestamp NOT NULL,
    updated_at timestamp NOT NULL DEFAULT now()
);

-- Of the middleware: requests that came under a key; no status yet means that one is under way, or was when its Pod died.
CREATE TABLE idempotency_keys (key text PRIMARY KEY, request jsonb, status integer, answer jsonb);
