import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';

/* ---------- nodes ---------- */

type YardNode = Redis & { yardUnlock(key: string, token: string): Promise<number> };

export function connectNodes(urls = (process.env.YARD_REDIS_URLS ?? '').split(',').filter(Boolean)): YardNode[] {
  if (urls.length < 3) throw new Error('the yard lock needs at least three independent redis nodes');
  return urls.map((url) => {
    const node = new Redis(url, {
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      commandTimeout: 500,
    });
    node.on('error', () => undefined); // a minority of nodes may be away; votes are counted per attempt
    node.defineCommand('yardUnlock', {
      numberOfKeys: 1,
      lua: "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
    });
    return node as YardNode;
  });
}

/* ---------- lock ---------- */

export class Lease {
  constructor(
    readonly key: string,
    readonly token: string,
    private readonly validUntil: number,
    private readonly nodes: readonly YardNode[],
  ) {}

  remaining(): number {
    return this.validUntil - performance.now();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.nodes.map((n) => n.yardUnlock(this.key, this.token)));
  }
}

const TTL_MS = 30_000;
const DRIFT_MS = TTL_MS * 0.01 + 2;
const MIN_USEFUL_MS = 20_000;

export async function leaseBlock(nodes: readonly YardNode[], block: string, attempts = 12): Promise<Lease> {
  const key = `yard:block:${block}`;
  const quorum = Math.floor(nodes.length / 2) + 1;
  for (let i = 0; i < attempts; i++) {
    const token = randomBytes(18).toString('base64url');
    const sentAt = performance.now();
    const votes = await Promise.allSettled(nodes.map((n) => n.set(key, token, 'PX', TTL_MS, 'NX')));
    const granted = votes.filter((v) => v.status === 'fulfilled' && v.value === 'OK').length;

    const lease = new Lease(key, token, sentAt + TTL_MS - DRIFT_MS, nodes);
    if (granted >= quorum && lease.remaining() >= MIN_USEFUL_MS) return lease;

    await lease[Symbol.asyncDispose]();
    await new Promise((r) => setTimeout(r, 100 + Math.random() * 400));
  }
  throw new Error(`block ${block} is busy`);
}

/* ---------- planning ---------- */

export interface Stack {
  row: number;
  bay: number;
  height: number;
  topWeightKg: number;
}

export interface YardRepository {
  stacks(block: string, opts: { timeoutMs: number }): Promise<Stack[]>;
  /** One transaction; rolled back by the database when it is not committed within timeoutMs. */
  place(containerId: string, block: string, at: Stack, opts: { timeoutMs: number }): Promise<void>;
}

const MAX_HEIGHT = 5;
const QUERY_MS = 3_000;

function score(s: Stack, weightKg: number): number {
  if (s.height >= MAX_HEIGHT) return -Infinity;
  if (s.height > 0 && s.topWeightKg < weightKg) return -Infinity;
  return s.height * 10 - Math.abs(s.topWeightKg - weightKg) / 1000;
}

export async function storeContainer(
  nodes: readonly YardNode[],
  yard: YardRepository,
  container: { id: string; weightKg: number },
  block: string,
): Promise<Stack> {
  await using lease = await leaseBlock(nodes, block);

  const stacks = await yard.stacks(block, { timeoutMs: QUERY_MS });
  let best: Stack | undefined;
  for (const s of stacks) {
    const value = score(s, container.weightKg);
    if (value === -Infinity) continue;
    if (!best || value > score(best, container.weightKg)) best = s;
  }
  if (!best) throw new Error(`block ${block} is full for ${container.weightKg} kg`);

  if (lease.remaining() < 3 * QUERY_MS) throw new Error(`lease on ${block} too short to commit`);
  await yard.place(container.id, block, best, { timeoutMs: QUERY_MS });
  return best;
}
