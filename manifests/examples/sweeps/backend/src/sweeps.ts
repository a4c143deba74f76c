import { Inject, Injectable, type BeforeApplicationShutdown, type OnApplicationBootstrap } from "@nestjs/common";
import { Gigs } from "./gigs.js";
import { NAMES, type Name, type Settings } from "./settings.js";
import { tick, type Slot } from "./tick.js";

const say = (line: object) => console.log(JSON.stringify({ at: new Date().toISOString(), ...line }));

/** One sweep of one slot: a webhook for each item that is due, one after the other, each taken anew from where all see it. */
@Injectable()
export class Sweeps implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly timers: NodeJS.Timeout[] = [];
  private readonly running = new Map<Name, Promise<object>>();
  private readonly asking = new Set<Name>();
  private readonly why = new Map<Name, string>();
  private closing = false;

  constructor(@Inject("settings") private readonly settings: Settings, @Inject(Gigs) private readonly gigs: Gigs) {}

  /** Road B keeps its timers. They ask five times a slot, since an interval drifts. */
  onApplicationBootstrap() {
    if (this.settings.road !== "elect") return;
    const ask = (name: Name) => () => void this.ask(name).catch((error) => console.error(String(error)));
    for (const name of NAMES) this.timers.push(setInterval(ask(name), this.settings.period / 5));
  }

  /** One question at a time, and none while the last slot is still swept. Why it may not is said when that changes. */
  private async ask(name: Name): Promise<void> {
    if (this.asking.has(name)) return;
    this.asking.add(name);
    const work = async ({ slot }: Slot) => void (await this.sweep(name, slot));
    const why = await tick("sweep", `${this.settings.every}&timer=${name}`, work).finally(() => this.asking.delete(name));
    const reason = why.replace(/:.*/s, "").replace(/^(Ran|AlreadyGranted)$/, "");
    if (reason && reason !== this.why.get(name)) say({ sweep: name, passed: why });
    this.why.set(name, reason);
  }

  /** `slot` is a time that only rises, on either road. Undefined where this instance is at it already, or going away. */
  sweep(name: Name, slot: string): Promise<object> | undefined {
    if (this.closing || this.running.has(name)) return undefined;
    const sweeping = this.work(name, slot).finally(() => this.running.delete(name));
    this.running.set(name, sweeping);
    return sweeping;
  }

  private async work(name: Name, slot: string): Promise<object> {
    const ends = Date.now() + 0.8 * this.settings.period;
    say({ sweep: name, slot, event: "began" });
    let sent = 0;
    let why = "";
    while (!why) {
      const id = this.closing ? "" : await this.gigs.take(name, Date.parse(slot));
      if (this.closing) why = "going away";
      else if (id === null) why = "a later slot has begun";
      else if (id === "") why = "nothing more is due";
      else if (!(await this.notify(name, id, slot))) why = "the webhook was not taken: the next slot tries it again";
      else {
        sent += 1;
        await this.gigs.done(name, id);
        if (Date.now() > ends) why = "the rest is left to the next slot";
      }
    }
    say({ sweep: name, slot, event: "ended", sent, why });
    return { sent, why };
  }

  /** The key is the item's, so whoever sends it again after a crash sends the same. */
  private async notify(name: Name, id: string, slot: string): Promise<boolean> {
    const reply = await fetch(`${this.settings.webhook}/${name}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": `${name}/${id}` },
      body: JSON.stringify({ id, slot, by: this.settings.me }),
      signal: AbortSignal.timeout(10_000),
    }).catch(() => undefined);
    return reply?.ok ?? false;
  }

  /** The item in hand is finished; then, on road B, the turn is given to another. */
  async beforeApplicationShutdown() {
    this.closing = true;
    for (const timer of this.timers) clearInterval(timer);
    await Promise.allSettled(this.running.values());
    if (this.settings.road === "elect") {
      const sidecar = process.env.SOLOIST_SIDECAR ?? "http://127.0.0.1:7070";
      await fetch(`${sidecar}/release`, { method: "POST", signal: AbortSignal.timeout(2_000) }).catch(() => undefined);
    }
  }
}
