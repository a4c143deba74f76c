import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from "@nestjs/common";
import { createClient } from "redis";
import type { Name, Settings } from "./settings.js";

/** Takes the first item that is due, unless a sweep of a later slot has begun. One script, so nobody comes in between. */
const TAKE = `
if tonumber(redis.call('GET', KEYS[2]) or '0') > tonumber(ARGV[1]) then return {'late'} end
redis.call('SET', KEYS[2], ARGV[1])
return {'due', redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[2], 'LIMIT', 0, 1)[1] or ''}`;

/** What is swept: for each sweep a sorted set of ids by the time at which they are due, and the newest slot that swept it. */
@Injectable()
export class Gigs implements OnModuleInit, OnApplicationShutdown {
  private readonly redis;

  constructor(@Inject("settings") settings: Settings) {
    this.redis = createClient({ url: settings.redis });
    this.redis.on("error", (error) => console.error(String(error)));
  }

  async onModuleInit() {
    await this.redis.connect();
  }

  async onApplicationShutdown() {
    await this.redis.close();
  }

  /** An id that is due, or "" if none is, or null where a later slot has begun. It stays until it is `done`. */
  async take(name: Name, slot: number): Promise<string | null> {
    const keys = [`{${name}}:due`, `{${name}}:slot`];
    const [said, id] = (await this.redis.eval(TAKE, { keys, arguments: [`${slot}`, `${Date.now()}`] })) as unknown as string[];
    return said === "late" ? null : id;
  }

  /** True of an item whoever says so, so no slot is checked. */
  async done(name: Name, id: string) {
    await this.redis.zRem(`{${name}}:due`, id);
  }
}
