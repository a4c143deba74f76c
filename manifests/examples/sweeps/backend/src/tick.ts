const SIDECAR = process.env.SOLOIST_SIDECAR ?? "http://127.0.0.1:7070";

export type Slot = { slot: string; fence: number; key: string; trustSeconds: number };

/** Does the work if this replica is granted the slot; else says why not. Unreachable is a no. */
export async function tick(lease: string, every: string, work: (slot: Slot) => Promise<void>): Promise<string> {
  const url = `${SIDECAR}/${lease}/ticks?every=${every}`;
  const reply = await fetch(url, { method: "POST", signal: AbortSignal.timeout(10_000) }).catch(String);
  if (typeof reply === "string") return `Unreachable: ${reply}`;
  const said = await reply.json().catch(() => ({}));
  if (reply.status !== 200) return `${said.reason ?? reply.status}: ${said.message}`;
  await work(said);
  return "Ran";
}
