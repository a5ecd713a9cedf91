import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;

const NODE_MS = 100;

async function ask<T>(work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), NODE_MS);
  });
  try {
    return await Promise.race([work, timeout]);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

export class ShardOwner {
  private readonly nodes: RedisClientType[];
  private readonly key: string;
  private readonly ttlMs: number;
  private token = '';
  private until = 0;

  constructor(nodes: RedisClientType[], shard: number, ttlMs = 10_000) {
    this.nodes = nodes;
    this.key = `shard:${shard}:owner`;
    this.ttlMs = ttlMs;
  }

  private deadline(from: number): number {
    return from + this.ttlMs - this.ttlMs * 0.02 - 2;
  }

  owns(): boolean {
    return performance.now() < this.until;
  }

  async claim(): Promise<boolean> {
    const token = randomUUID();
    const from = performance.now();
    const replies = await Promise.all(
      this.nodes.map((node) => ask(node.set(this.key, token, { NX: true, PX: this.ttlMs }))),
    );
    const votes = replies.filter((reply) => reply === 'OK').length;
    const until = this.deadline(from);
    if (votes < Math.floor(this.nodes.length / 2) + 1 || performance.now() >= until) {
      await this.clear(token);
      return false;
    }
    this.token = token;
    this.until = until;
    return true;
  }

  async extend(): Promise<boolean> {
    const { token } = this;
    const from = performance.now();
    const replies = await Promise.all(
      this.nodes.map((node) => ask(node.eval(EXTEND, { keys: [this.key], arguments: [token, String(this.ttlMs)] }))),
    );
    if (this.token !== token) return false;
    if (!replies.some((reply) => reply === 1)) return false;
    this.until = this.deadline(from);
    return this.owns();
  }

  async leave(): Promise<void> {
    const { token } = this;
    this.until = 0;
    this.token = '';
    if (token) await this.clear(token);
  }

  private async clear(token: string): Promise<void> {
    await Promise.all(this.nodes.map((node) => ask(node.eval(UNLOCK, { keys: [this.key], arguments: [token] }))));
  }
}

export async function drainShard(owner: ShardOwner, next: () => Promise<(() => Promise<void>) | null>) {
  if (!(await owner.claim())) return 0;
  let handled = 0;
  try {
    for (let task = await next(); task; task = await next()) {
      if (!(await owner.extend())) break;
      await task();
      handled++;
    }
    return handled;
  } finally {
    await owner.leave();
  }
}
