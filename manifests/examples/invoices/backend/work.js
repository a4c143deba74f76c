// What is done, whoever starts it: each takes a transaction of Prisma's. Soloist changes nothing here.

async function moved(tx, invoice, became) {
  const { id: invoiceId, status: was, endpointId } = invoice;
  const kind = `invoice.${became}`;
  await tx.invoice.update({ where: { id: invoiceId }, data: { status: became } });
  await tx.statusHistory.create({ data: { invoiceId, was, became } });
  await tx.activityEvent.create({ data: { invoiceId, kind } });
  await tx.notification.create({ data: { invoiceId, kind } });
  const { url } = await tx.webhookEndpoint.findUniqueOrThrow({ where: { id: endpointId } });
  await tx.webhookDelivery.create({ data: { endpointId, url, event: kind, payload: { invoiceId, was, became } } });
}

async function sendScheduled(tx) {
  const ready = await tx.invoice.findMany({ where: { status: "draft", sendAt: { lte: new Date() } } });
  for (const invoice of ready) await moved(tx, invoice, "sent");
  return ready.length;
}

async function remind(tx) {
  const soon = new Date(Date.now() + 3 * 24 * 3600 * 1000);
  const where = { status: "sent", remindedAt: null, dueAt: { gt: new Date(), lte: soon } };
  const due = await tx.invoice.findMany({ where });
  for (const { id } of due) {
    await tx.invoice.update({ where: { id }, data: { remindedAt: new Date() } });
    await tx.notification.create({ data: { invoiceId: id, kind: "invoice.due-soon" } });
  }
  return due.length;
}

async function markOverdue(tx) {
  const late = await tx.invoice.findMany({ where: { status: "sent", dueAt: { lt: new Date() } } });
  for (const invoice of late) await moved(tx, invoice, "overdue");
  return late.length;
}

async function takePayment(tx, { number, invoiceId, cents }) {
  const { count } = await tx.payment.createMany({ data: { number, invoiceId, cents }, skipDuplicates: true });
  if (count === 0) return; // known already
  const invoice = await tx.invoice.findUnique({ where: { id: invoiceId } });
  if (invoice && invoice.status !== "paid") await moved(tx, invoice, "paid");
}

/** The bank's payments after a number, in its order. */
async function paymentsAfter(number) {
  const reply = await fetch(`${process.env.PAYMENTS_URL}?after=${number}`, { signal: AbortSignal.timeout(10_000) });
  if (!reply.ok) throw new Error(`the bank answered ${reply.status}`);
  return await reply.json();
}

module.exports = { sendScheduled, remind, markOverdue, takePayment, paymentsAfter };
