// One image, two services: people's requests go to `backend`, Soloist's to `backend-jobs`.
const { randomUUID } = require("node:crypto");
const express = require("express");
const { prisma, NAMES, work, drain } = require("./queues");

const TOKEN = process.env.BACKEND_TOKEN; // what Soloist sends as Authorization
const OWN = process.env.OWN_DRAINS !== "off"; // the switch of step 3; goes with all that it guards in step 6
const LIFECYCLE = 60_000;
const app = express();
app.use(express.json());

app.get("/healthz", async (_, response) => {
  await prisma.$queryRaw`SELECT 1`;
  response.send("ok");
});

app.post("/orders", async (request, response) => {
  const { customer, webhook, seconds = 3600 } = request.body;
  const id = randomUUID();
  const payload = { order: id, customer };
  await prisma.$transaction([
    prisma.order.create({ data: { id, customer, closesAt: new Date(Date.now() + seconds * 1000) } }),
    prisma.email.create({ data: { payload } }),
    prisma.notification.create({ data: { payload } }),
    prisma.funding.create({ data: { payload } }),
    prisma.export.create({ data: { payload } }),
    ...(webhook ? [prisma.webhook.create({ data: { url: webhook, payload } })] : []),
  ]);
  if (OWN) for (const name of NAMES) drain(name).catch(console.error);
  response.status(201).json({ id });
});

app.get("/orders/:id", async (request, response) => {
  const order = await prisma.order.findUnique({ where: { id: request.params.id } });
  response.status(order ? 200 : 404).json(order);
});

// What is due at an order's end: it is closed, and its customer is told.
async function lifecycle() {
  const due = await prisma.order.findMany({ where: { status: "open", closesAt: { lte: new Date() } }, take: 500 });
  for (const { id, customer } of due) {
    await prisma.$transaction([
      prisma.order.update({ where: { id }, data: { status: "closed" } }),
      prisma.notification.create({ data: { payload: { closed: id, customer } } }),
    ]);
  }
  return { closed: due.length };
}
if (OWN) setInterval(() => lifecycle().catch(console.error), LIFECYCLE);

// For Soloist alone. Without a token nobody is let in.
const internal = express.Router();
internal.use((request, response, next) =>
  TOKEN && request.get("authorization") === `Bearer ${TOKEN}` ? next() : response.sendStatus(401),
);
internal.param("queue", (_, response, next, name) => (NAMES.includes(name) ? next() : response.sendStatus(404)));
internal.post("/drain/:queue", async (request, response) => response.json(await drain(request.params.queue)));
internal.post("/lifecycle", async (_, response) => response.json(await lifecycle()));
internal.post("/work/:queue", async (request, response) => {
  await work(request.params.queue, request.body);
  response.sendStatus(204);
});
app.use("/internal", internal);
// 410 has the row held for a person; anything else that is no success has it sent again.
app.use((error, _request, response, _next) => response.status(error.unknown ? 410 : 502).send(String(error)));

const PORT = process.env.PORT ?? 8000;
const server = app.listen(PORT).on("listening", () => console.log(`listening on ${PORT}`));
process.on("SIGTERM", () => server.close(() => prisma.$disconnect().then(() => process.exit())));
