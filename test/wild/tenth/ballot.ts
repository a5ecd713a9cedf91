import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';

// Distributed mutex for the import workers. Five masters, no replicas.

const RELEASE = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`;
const EXTEND = `if redis.call("get",KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call("pttl",KEYS[1]) < tonumber(ARGV[2]) then redis.call("pexpire",KEYS[1],ARGV[2]) end
return 1`;

export class MutexUnavailable extends Error {
  constructor(resource: string) {
    super(`mutex ${resource} is not available`);
    this.name = 'MutexUnavailable';
  }
}

export class MultiMutex {
  private readonly nodes: Redis[];
  /** how many nodes may refuse or fail */
  private readonly tolerated: number;

  constructor(nodes: Redis[]) {
    this.nodes = nodes;
    this.tolerated = Math.ceil(nodes.length / 2);
  }

  async acquire(resource: string, ttlMs: number) {
    const key = `mutex:${resource}`;
    for (let attempt = 1; attempt <= 6; attempt++) {
      const token = randomUUID();
      const startedAt = performance.now();
      const failures = await this.failures(ttlMs / 3, 'OK', (node) => node.set(key, token, 'PX', ttlMs, 'NX'));
      const deadline = startedAt + this.effective(ttlMs);
      if (failures <= this.tolerated && performance.now() < deadline) {
        return new Mutex(this, key, token, deadline);
      }
      await this.unlock(key, token);
      await delay(attempt * 50 + Math.random() * 50);
    }
    throw new MutexUnavailable(resource);
  }

  async prolong(key: string, token: string, ttlMs: number): Promise<number | null> {
    const startedAt = performance.now();
    const failures = await this.failures(ttlMs / 3, 1, (node) => node.eval(EXTEND, 1, key, token, ttlMs));
    return failures <= this.tolerated ? startedAt + this.effective(ttlMs) : null;
  }

  async unlock(key: string, token: string) {
    await this.failures(500, 1, (node) => node.eval(RELEASE, 1, key, token));
  }

  private effective(ttlMs: number) {
    return ttlMs - Math.ceil(ttlMs * 0.01) - 2;
  }

  private async failures(patienceMs: number, expected: unknown, command: (node: Redis) => Promise<unknown>) {
    const results = await Promise.all(
      this.nodes.map((node) => {
        const cancel = new AbortController();
        const timeout = delay(Math.min(patienceMs, 250), false, { signal: cancel.signal }).catch(() => false);
        const answer = command(node).then((value) => value === expected, () => false);
        return Promise.race([answer, timeout]).finally(() => cancel.abort());
      }),
    );
    return results.filter((ok) => !ok).length;
  }
}

class Mutex {
  private readonly owner: MultiMutex;
  private readonly key: string;
  private readonly token: string;
  private deadline: number;
  private released = false;

  constructor(owner: MultiMutex, key: string, token: string, deadline: number) {
    this.owner = owner;
    this.key = key;
    this.token = token;
    this.deadline = deadline;
  }

  remaining() {
    return this.released ? 0 : Math.max(0, this.deadline - performance.now());
  }

  isValid() {
    return this.remaining() > 0;
  }

  async extend(ttlMs: number) {
    if (!this.isValid()) return false;
    const deadline = await this.owner.prolong(this.key, this.token, ttlMs);
    if (deadline === null || this.released) return false;
    this.deadline = Math.max(this.deadline, deadline);
    return this.isValid();
  }

  async release() {
    if (this.released) return;
    this.released = true;
    await this.owner.unlock(this.key, this.token);
  }
}

export const make = ({ nodes }: { nodes: Redis[] }) => new MultiMutex(nodes);
