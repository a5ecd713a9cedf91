import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { ulid } from 'ulid';
import type { FleetApi, MatchRepository } from './fleet';
import type { Logger } from './logger';

const LOCK_TTL_MS = 30_000;
const FLEET_TIMEOUT_MS = 8_000;
const DB_TIMEOUT_MS = 3_000;

// A command that was sent again after a reconnect finds its own value and goes on.
const ACQUIRE = `
local owner = redis.call('GET', KEYS[1])
if owner == false or owner == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export interface AllocatorDeps {
  redis: Redis;
  fleet: FleetApi;
  matches: MatchRepository;
  log: Logger;
}

export class GameServerAllocator {
  private readonly deps: AllocatorDeps;
  private readonly owner = `${hostname()}:${process.pid}:${ulid()}`;

  constructor(deps: AllocatorDeps) {
    this.deps = deps;
  }

  /** Finds an idle server in the region and gives it to the match. */
  async allocate(matchId: string, region: string): Promise<{ serverId: string; address: string }> {
    return this.withRegion(region, async () => {
      const { fleet, matches, log } = this.deps;

      const existing = await matches.serverOf(matchId, { timeoutMs: DB_TIMEOUT_MS });
      if (existing) return existing;

      const idle = await fleet.listIdle(region, { timeoutMs: FLEET_TIMEOUT_MS });
      if (idle.length === 0) throw new Error(`no idle game server in ${region}`);

      // The warmest one first: it has the maps in memory.
      const server = idle.sort((a, b) => b.warmth - a.warmth)[0];
      await fleet.markBusy(server.id, matchId, { timeoutMs: FLEET_TIMEOUT_MS });
      await matches.assign(matchId, server.id, { timeoutMs: DB_TIMEOUT_MS });
      log.info({ matchId, region, serverId: server.id }, 'match placed');
      return { serverId: server.id, address: server.address };
    });
  }

  private async withRegion<T>(region: string, work: () => Promise<T>): Promise<T> {
    const key = `fleet:${region}:allocation`;
    await this.acquire(key);
    try {
      return await work();
    } finally {
      await this.deps.redis
        .eval(RELEASE, 1, key, this.owner)
        .catch((err) => this.deps.log.warn({ err, key }, 'allocation lock not released'));
    }
  }

  private async acquire(key: string): Promise<void> {
    const giveUpAt = Date.now() + 10_000;
    for (;;) {
      const got = await this.deps.redis.eval(ACQUIRE, 1, key, this.owner, LOCK_TTL_MS);
      if (got === 1) return;
      if (Date.now() >= giveUpAt) throw new Error(`allocation lock ${key} is busy`);
      await sleep(80 + Math.random() * 120);
    }
  }
}
