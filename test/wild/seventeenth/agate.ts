import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

/*
 * Each lock has its deadline in it, so that a lock that its holder left behind is taken over at once. The expiry of the key
 * is only for locks that nobody wants any more.
 */
const TAKE = `
local deadline = redis.call('hget', KEYS[1], 'deadline')
if deadline and tonumber(deadline) > tonumber(ARGV[3]) then
  return 0
end
redis.call('del', KEYS[1])
redis.call('hset', KEYS[1], 'owner', ARGV[1])
redis.call('hset', KEYS[1], 'deadline', ARGV[2])
redis.call('pexpire', KEYS[1], ARGV[4])
return 1`;

const EXTEND = `
if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then
  return 0
end
redis.call('hset', KEYS[1], 'deadline', ARGV[2])
redis.call('pexpire', KEYS[1], ARGV[3])
return 1`;

const GIVE = `
if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then
  return 0
end
return redis.call('del', KEYS[1])`;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

class DeadlineLock {
  private readonly owner = randomUUID();
  private closed = false;
  private deadline = 0;
  private margin = 0;

  constructor(
    private readonly nodes: Redis[],
    private readonly key: string,
    private readonly ttl: number,
  ) {}

  async take(): Promise<boolean> {
    const now = Date.now();
    const deadline = now + this.ttl;
    const won = await this.majority(async (node) => {
      const ok = (await node.eval(TAKE, 1, this.key, this.owner, deadline, now, this.ttl * 2)) === 1;
      if (ok && this.closed) node.eval(GIVE, 1, this.key, this.owner).catch(() => {});
      return ok;
    });
    this.deadline = deadline;
    this.margin = Math.ceil(this.ttl * 0.01) + 2;
    return won && this.isHeld();
  }

  get expiresAt(): number {
    return this.closed ? 0 : this.deadline - this.margin;
  }

  isHeld(): boolean {
    return Date.now() < this.expiresAt;
  }

  async extend(ttl: number): Promise<boolean> {
    if (!this.isHeld()) return false;
    const deadline = Date.now() + ttl;
    const won = await this.majority(
      async (node) => (await node.eval(EXTEND, 1, this.key, this.owner, deadline, ttl * 2)) === 1,
    );
    if (!won || !this.isHeld()) return false;
    this.deadline = deadline;
    this.margin = Math.ceil(ttl * 0.01) + 2;
    return true;
  }

  async release(): Promise<void> {
    this.closed = true;
    const told = new Set<Redis>();
    for (let round = 0; round < 3 && told.size < this.nodes.length; round++)
      await this.majority(async (node) => {
        if (!told.has(node)) await node.eval(GIVE, 1, this.key, this.owner);
        told.add(node);
        return true;
      });
  }

  private async majority(ask: (node: Redis) => Promise<boolean>): Promise<boolean> {
    let yes = 0;
    await Promise.all(
      this.nodes.map(async (node) => {
        let timer: ReturnType<typeof setTimeout> | undefined;
        const late = new Promise<false>((resolve) => {
          timer = setTimeout(resolve, this.ttl / 5, false);
        });
        if (await Promise.race([ask(node).catch(() => false), late])) yes += 1;
        clearTimeout(timer);
      }),
    );
    return yes > this.nodes.length / 2;
  }
}

export const make: MakeLock = ({ nodes }) => ({
  async acquire(resource, ttlMs) {
    const patience = performance.now() + 3 * ttlMs;
    while (performance.now() < patience) {
      const lock = new DeadlineLock(nodes, resource, ttlMs);
      if (await lock.take()) return lock;
      await lock.release();
      await sleep(ttlMs * (0.03 + Math.random() * 0.1));
    }
    return null;
  },
});
