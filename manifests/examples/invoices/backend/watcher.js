// The loop over the bank's payments, in every replica; the one whose sidecar holds the Lease `payments` goes on.
// The cursor is in the database. It is written in the transaction that takes the payments, under the fence of the Lease:
// a replica that was cut off in the middle is refused (SO002), and whoever follows begins where the last one had committed.
const { setTimeout: sleep } = require("node:timers/promises");
const { takePayment, paymentsAfter } = require("./work");

const SIDECAR = process.env.SOLOIST_SIDECAR ?? "http://127.0.0.1:7070";

async function watchOnce(prisma) {
  const reply = await fetch(`${SIDECAR}/payments`, { signal: AbortSignal.timeout(5_000) });
  if (reply.status !== 200) return 0; // another replica's turn
  const { fence } = await reply.json();
  const [{ cursor }] = await prisma.$queryRaw`SELECT (soloist.checkpoint('payments') #>> '{}')::int AS cursor`;
  const payments = await paymentsAfter(cursor ?? 0);
  if (payments.length === 0) return 0;
  const last = payments.at(-1).number;
  await prisma.$transaction(async (tx) => {
    await tx.$executeRaw`SET LOCAL idle_in_transaction_session_timeout = '5s'`; // frozen here, it would hold up the next one
    await tx.$executeRaw`SELECT soloist.checkpoint('payments', to_jsonb(${last}::int), ${BigInt(fence)}::bigint)`;
    for (const payment of payments) await takePayment(tx, payment);
  }, { timeout: 30_000 });
  console.log(JSON.stringify({ watcher: "payments", from: cursor ?? 0, to: last, fence }));
  return payments.length;
}

module.exports = async function watchPayments(prisma) {
  for (;;) {
    const taken = await watchOnce(prisma).catch((error) => {
      console.log(JSON.stringify({ watcher: "payments", error: String(error) }));
      return 0;
    });
    if (taken === 0) await sleep(Number(process.env.WATCH_MS ?? 5_000));
  }
};
