// A payroll on Express and pg, as it is after the change: no timer, and what the timer's loop did for each row is an endpoint.
const express = require("express");
const { Pool } = require("pg");

const { DATABASE_URL, INTERNAL_TOKEN, PAYMENTS_URL, PORT } = process.env;
const pool = new Pool({ connectionString: DATABASE_URL, max: 20 });
const lost = (error) => console.error("a connection to the database was lost:", error.message);
pool.on("error", lost).on("connect", (client) => client.on("error", lost));
const app = express().use(express.json());

/** An answer that is not 2xx. What is `open` keeps its key: nobody knows whether money went out. */
class Refusal extends Error {
  constructor(status, message, open = false) {
    super(message);
    Object.assign(this, { status, open });
  }
}

// The middleware that was there before, on every route that changes something.
async function idempotent(request, response, next) {
  const key = request.get("Idempotency-Key");
  if (!key) throw new Refusal(400, "There is no Idempotency-Key.");
  const add = "INSERT INTO idempotency_keys (key, request) VALUES ($1, $2) ON CONFLICT DO NOTHING";
  if ((await pool.query(add, [key, request.body])).rowCount) {
    request.key = key;
    return next();
  }
  const found = await pool.query("SELECT status, answer FROM idempotency_keys WHERE key = $1", [key]);
  const { status, answer } = found.rows[0] ?? {};
  if (!status) throw new Refusal(409, "This key came before, and its request has no answer yet.");
  return response.status(status).json(answer);
}

function internal(request, response, next) {
  if (!INTERNAL_TOKEN || request.get("Authorization") !== `Bearer ${INTERNAL_TOKEN}`) {
    throw new Refusal(401, "This is for Soloist only.");
  }
  next();
}

// New: what processDueSchedules() did for one row.
app.post("/internal/run-schedule", internal, idempotent, async (request, response) => {
  const { id, due } = request.body;
  const answer = { paid: await runSchedule(id, due, request.get("X-Organisation-Id")) };
  await pool.query("UPDATE idempotency_keys SET status = 200, answer = $2 WHERE key = $1", [request.key, answer]);
  response.json(answer);
});

// The row is locked until it has moved: whoever asks for it meanwhile waits, and finds it moved. The time is over before that of
// workqueue.yaml (60 s), so nothing is still being paid here that is held for a person there.
async function runSchedule(id, due, organisation) {
  const over = AbortSignal.timeout(50_000);
  const client = await pool.connect();
  let asked = false;
  try {
    await client.query("BEGIN");
    const found = await client.query(
      `SELECT id, organisation_id, account, amount_cents FROM schedules
        WHERE id = $1 AND organisation_id = $2 AND status = 'active'
          AND next_run_timestamp = $3::timestamptz AT TIME ZONE 'UTC' FOR UPDATE`,
      [id, organisation, due],
    );
    if (found.rowCount) {
      asked = true;
      await pay(found.rows[0], due, over);
      await client.query(
        "UPDATE schedules SET next_run_timestamp = next_run_timestamp + every, updated_at = clock_timestamp() WHERE id = $1",
        [id],
      );
    }
    await client.query("COMMIT");
    return found.rowCount === 1;
  } catch (error) {
    await client.query("ROLLBACK").catch(() => {});
    if (error instanceof Refusal || !asked) throw error;
    // 410 gives the row up: a person looks, and nothing is sent again meanwhile.
    throw new Refusal(410, `Nobody knows whether it was paid: ${error.message}`, true);
  } finally {
    client.release();
  }
}

// The provider of the payments. It heeds no keys: two calls are two payments.
async function pay({ id, organisation_id, account, amount_cents }, due, signal) {
  const body = JSON.stringify({ schedule: id, organisation: organisation_id, due, account, cents: Number(amount_cents) });
  const head = { "Content-Type": "application/json" };
  const said = await fetch(PAYMENTS_URL, { method: "POST", headers: head, body, signal });
  if (said.status >= 400 && said.status < 500) throw new Refusal(502, `The payment was refused with ${said.status}.`);
  if (!said.ok) throw new Error(`the provider answered ${said.status}`);
}

app.get("/healthz", (request, response) => response.json({}));

// Nothing was paid, so the key may come again; unless that is not known.
app.use(async (error, request, response, next) => {
  if (!(error instanceof Refusal)) console.error(error);
  if (request.key && !error.open) await pool.query("DELETE FROM idempotency_keys WHERE key = $1", [request.key]);
  response.status(error.status ?? 500).json({ error: error.message });
});

const server = app.listen(PORT).on("listening", () => console.log(`listening on ${PORT}`));
process.on("SIGTERM", () => server.close(() => pool.end()));
