import { hostname } from "node:os";

const ROADS = {
  endpoint: "Soloist calls POST /internal/sweeps/NAME, and nothing is swept unasked",
  elect: "the timers stay, and ask the sidecar at SOLOIST_SIDECAR whose turn it is",
};
export const NAMES = ["expire", "remind"] as const;
export type Name = (typeof NAMES)[number];

const env = (name: string, otherwise?: string): string => {
  const found = process.env[name] || otherwise;
  if (!found) throw new Error(`${name} is not set.`);
  return found;
};

/** Read once, before anything listens or ticks. Throws a sentence for the first that is wrong. */
export function settings() {
  const road = process.env.SWEEPS ?? "";
  if (!(road in ROADS)) {
    const roads = Object.entries(ROADS).map(([name, meaning]) => `${name} (${meaning})`);
    throw new Error(`SWEEPS is ${JSON.stringify(road)}: write ${roads.join(" or ")}. Without it every instance would sweep.`);
  }
  const every = env("SWEEP_EVERY", "300s");
  if (!/^[1-9][0-9]*s$/.test(every)) throw new Error(`SWEEP_EVERY is ${every}: write seconds, such as 300s.`);
  return {
    road: road as keyof typeof ROADS,
    every,
    period: 1000 * parseInt(every),
    redis: env("REDIS_URL", "redis://redis:6379"),
    webhook: env("WEBHOOK_URL"),
    token: road === "endpoint" ? env("INTERNAL_TOKEN") : "",
    port: Number(env("PORT", "8080")),
    address: env("ADDRESS", "0.0.0.0"),
    me: env("POD_NAME", hostname()),
  };
}
export type Settings = ReturnType<typeof settings>;
