// Before: every replica starts all of these, and so does each of them as often as there are replicas.
// This file is what you delete in the end.
const { createHmac } = require("node:crypto");
const work = require("./work");

module.exports = function startTimers(prisma) {
  const every = (seconds, task) => setInterval(() => task().catch(console.error), seconds * 1000);
  const job = (task) => () => prisma.$transaction(task, { timeout: 60_000 });

  every(60, job(work.sendScheduled));
  every(300, job(work.remind));
  let night = null;
  every(30, async () => {
    const now = new Date();
    if (now.getUTCHours() !== 2 || night === now.getUTCDate()) return;
    night = now.getUTCDate();
    await job(work.markOverdue)();
  });
  every(1, () => deliverDue(prisma));

  let cursor = 0; // lost with the process
  every(5, async () => {
    for (const payment of await work.paymentsAfter(cursor)) {
      await prisma.$transaction((tx) => work.takePayment(tx, payment));
      cursor = payment.number;
    }
  });
};

// Two replicas find the same rows, and send both.
async function deliverDue(prisma) {
  const where = { status: "pending", nextAttemptAt: { lte: new Date() } };
  for (const row of await prisma.webhookDelivery.findMany({ where, take: 100 })) {
    const { secret } = await prisma.webhookEndpoint.findUniqueOrThrow({ where: { id: row.endpointId } });
    const body = JSON.stringify(row.payload);
    const headers = {
      "content-type": "application/json",
      "x-event": row.event,
      "x-idempotency-key": `${row.id}-${row.attempts}`,
      "x-webhook-signature": "sha256=" + createHmac("sha256", secret).update(body).digest("hex"),
    };
    const reply = await fetch(row.url, { method: "POST", headers, body }).catch((error) => ({ status: String(error) }));
    const attempts = row.attempts + 1;
    const status = reply.ok ? "success" : attempts < 5 ? "pending" : "failed";
    const lastError = reply.ok ? null : `status ${reply.status}`;
    const when = reply.ok ? { deliveredAt: new Date() } : { nextAttemptAt: new Date(Date.now() + 60_000 * 2 ** row.attempts) };
    await prisma.webhookDelivery.update({ where: { id: row.id }, data: { attempts, status, lastError, ...when } });
    const { id: deliveryId, url, payload } = row;
    if (status === "failed") await prisma.webhookDeadLetter.create({ data: { deliveryId, url, payload, attempts, lastError } });
  }
}
