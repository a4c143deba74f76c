import { hostname } from "node:os";

export const NAMES = ["expire", "remind"] as const;
export type Name = (typeof NAMES)[number];
export type Settings = ReturnType<typeof settings>;

/** Read once, before anything listens or ticks. Throws a sentence for the first that is wrong. */
export function settings() {
  const { SWEEPS: road, SWEEP_EVERY: every = "300s", WEBHOOK_URL: webhook, INTERNAL_TOKEN: token } = process.env;
  if (road !== "endpoint" && road !== "elect") {
    throw new Error(
      `SWEEPS is "${road ?? ""}": write endpoint (Soloist calls POST /internal/sweeps/NAME, and nothing is swept unasked)` +
        " or elect (the timers stay, and ask the sidecar at SOLOIST_SIDECAR whose turn it is). Without it every instance would sweep.",
    );
  }
  if (!/^[1-9][0-9]*s$/.test(every)) throw new Error(`SWEEP_EVERY is ${every}: write seconds, such as 300s.`);
  if (!webhook) throw new Error("WEBHOOK_URL is not set.");
  if (road === "endpoint" && !token) throw new Error("INTERNAL_TOKEN is not set.");
  const { REDIS_URL: redis = "redis://redis:6379", PORT: port = "8080", POD_NAME: me = hostname() } = process.env;
  return { road, every, period: 1000 * parseInt(every), webhook, token, redis, port: Number(port), me };
}
