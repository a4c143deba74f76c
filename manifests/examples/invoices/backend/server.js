// After: the timers are ScheduledJobs that ask these endpoints, deliveries are a WorkQueue, and the watcher asks whose turn it is.
const { createServer } = require("node:http");
const { PrismaPg } = require("@prisma/adapter-pg");
const { PrismaClient } = require("./generated");
const { sendScheduled, remind, markOverdue } = require("./work");

const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }) });
const PORT = Number(process.env.PORT ?? 8080);
const JOBS = {
  "/internal/jobs/send-scheduled": sendScheduled,
  "/internal/jobs/payment-reminders": remind,
  "/internal/jobs/overdue-invoices": markOverdue,
};

/** The work of one run, once: its key is written in the transaction that does the work. */
async function once(key, fence, job) {
  return prisma.$transaction(async (tx) => {
    await tx.$executeRaw`SET LOCAL idle_in_transaction_session_timeout = '10s'`; // frozen here, it would hold up the next one
    const [{ first }] = await tx.$queryRaw`SELECT soloist.once(${key}, ${BigInt(fence)}::bigint) AS first`;
    return first ? { done: await job(tx) } : { done: 0, before: true };
  }, { timeout: 120_000 });
}

async function answer(request) {
  if (request.url === "/healthz") {
    await prisma.$queryRaw`SELECT 1`;
    return [200, "well"];
  }
  const job = request.method === "POST" && JOBS[request.url];
  if (!job) return [404, "no such page"];
  const { AUTHORIZATION } = process.env; // without it nobody is let in
  if (!AUTHORIZATION || request.headers.authorization !== AUTHORIZATION) return [401, "who are you?"];
  const { "idempotency-key": key, "soloist-fence": fence, "soloist-attempt": attempt } = request.headers;
  const say = (more) => console.log(JSON.stringify({ job: request.url.split("/").at(-1), key, fence, attempt, ...more }));
  say({ asked: true });
  try {
    const came = await once(key, fence, job);
    say(came);
    return [200, JSON.stringify(came)];
  } catch (error) {
    say({ error: String(error) });
    return String(error).includes("SO002") ? [409, "a later leader has asked already"] : [500, "see the log"];
  }
}

const server = createServer(async (request, reply) => {
  request.resume();
  const [status, body] = await answer(request).catch((error) => [503, String(error)]);
  reply.writeHead(status).end(body);
}).listen(PORT, () => console.log(`listening on ${PORT}`));
process.on("SIGTERM", () => server.close(() => process.exit())); // what was asked is answered first

if (process.env.TIMERS === "on") require("./timers")(prisma);
else require("./watcher")(prisma);
