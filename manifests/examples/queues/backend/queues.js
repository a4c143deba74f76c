// The five queues: what a row of each does, and the drain that Soloist takes the place of.
const { PrismaPg } = require("@prisma/adapter-pg");
const { PrismaClient } = require("./generated");

const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }) });
const PROVIDER = process.env.PROVIDER_URL; // of mail, push messages, payments and files; without one they are only printed
const { email, notification, webhook, funding } = prisma;
const TABLES = { email, notification, webhook, funding, export: prisma.export };
const NAMES = Object.keys(TABLES);
const BACK_OFF = [5, 30, 120, 600]; // seconds; the fifth failure is the last

// One row to the outside. The key is the same for all attempts, so a provider that keeps keys acts once; the fence, where there
// is one, rises with every claim.
async function send(name, row, key, fence) {
  const url = row.url ?? (PROVIDER && `${PROVIDER}/${name}`);
  if (!url) return console.log(JSON.stringify({ sent: name, key, payload: row.payload }));
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": key, ...(fence && { "soloist-fence": fence }) },
    body: JSON.stringify(row.payload),
    signal: AbortSignal.timeout(10_000),
  });
  await answer.arrayBuffer();
  const refused = answer.status >= 400 && answer.status < 500;
  if (!answer.ok) throw Object.assign(new Error(`${name} ${row.id}: ${answer.status} from the provider`), { refused });
}

// A queue for each table: one row, claimed by Soloist, which also writes what became of it.
async function work(name, { id, key, fence }) {
  const row = await TABLES[name].findUnique({ where: { id } });
  if (!row) return;
  await send(name, row, key, fence).catch((error) => {
    // Money: unless the provider refused it, nobody knows whether it went out.
    throw Object.assign(error, { unknown: name === "funding" && !error.refused });
  });
}

// The drain: all that is due. It takes no more once its time is over, so that it has ended before it may be asked for again.
async function drain(name) {
  const enough = Date.now() + 15_000;
  let attempts = 0;
  while (Date.now() < enough) {
    const where = { status: "pending", nextAttemptAt: { lte: new Date() } };
    const rows = await TABLES[name].findMany({ where, orderBy: { nextAttemptAt: "asc" }, take: 20 });
    if (rows.length === 0) break;
    attempts += rows.length;
    await Promise.all(rows.map((row) => attempt(name, row)));
  }
  return { attempts };
}

async function attempt(name, row) {
  const attempts = row.attempts + 1;
  const lastError = await send(name, row, row.id).then(() => null, String);
  const wait = BACK_OFF[row.attempts];
  const left = wait ? { nextAttemptAt: new Date(Date.now() + wait * 1000) } : { status: "failed" };
  const became = lastError ? left : { status: "done", doneAt: new Date() };
  await TABLES[name].update({ where: { id: row.id }, data: { attempts, lastError, ...became } });
}

module.exports = { prisma, NAMES, work, drain };
