import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'iovalkey';

const DROP = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0';

export function connectNodes(hosts = (process.env.VALKEY_HOSTS ?? 'vk1,vk2,vk3,vk4,vk5').split(',')): Redis[] {
  return hosts.map((host) => {
    const node = new Redis({ host, commandTimeout: 300, maxRetriesPerRequest: 0, enableOfflineQueue: false });
    node.on('error', (e: Error) => console.warn(`warehouse sync: ${host}: ${e.message}`));
    return node;
  });
}

export class NotLocked extends Error {}

interface Grant {
  token: string;
  until: number;
}

async function tryGrant(nodes: Redis[], key: string, ttl: number): Promise<Grant | null> {
  const token = randomBytes(20).toString('hex');
  const begun = performance.now();
  const settled = await Promise.allSettled(nodes.map((n) => n.set(key, token, 'PX', ttl, 'NX')));

  // a node that is down has no vote
  const answers = settled.filter((s) => s.status === 'fulfilled').map((s) => s.value);
  const granted = answers.filter((a) => a === 'OK').length;
  const until = begun + ttl - Math.ceil(ttl * 0.01) - 30;

  if (granted >= Math.floor(answers.length / 2) + 1 && performance.now() < until) return { token, until };
  await drop(nodes, key, token);
  return null;
}

async function drop(nodes: Redis[], key: string, token: string): Promise<void> {
  const settled = await Promise.allSettled(nodes.map((n) => n.eval(DROP, 1, key, token)));
  for (const s of settled) if (s.status === 'rejected') console.warn(`${key}: not dropped on a node`, String(s.reason));
}

/** Holds the lock for ttl at most and does not renew: fn must call `inTime` before each write. */
export async function withWarehouse<T>(
  nodes: Redis[],
  warehouse: string,
  fn: (inTime: () => void) => Promise<T>,
  { ttl = 20_000, patience = 10_000 } = {},
): Promise<T> {
  const key = `wh:sync:${warehouse}`;
  const giveUp = performance.now() + patience;
  let grant = await tryGrant(nodes, key, ttl);
  while (!grant) {
    if (performance.now() >= giveUp) throw new NotLocked(warehouse);
    await sleep(150 + Math.random() * 350);
    grant = await tryGrant(nodes, key, ttl);
  }
  const { token, until } = grant;
  try {
    return await fn(() => {
      if (performance.now() >= until) throw new NotLocked(`${warehouse}: out of time`);
    });
  } finally {
    await drop(nodes, key, token);
  }
}

export interface Erp {
  counts(warehouse: string): Promise<Map<string, number>>;
  adjust(warehouse: string, sku: string, delta: number): Promise<void>;
}

export async function syncWarehouse(nodes: Redis[], erp: Erp, shelf: Erp, warehouse: string): Promise<number> {
  return withWarehouse(nodes, warehouse, async (inTime) => {
    const [want, have] = await Promise.all([shelf.counts(warehouse), erp.counts(warehouse)]);
    let changed = 0;
    for (const [sku, qty] of want) {
      const delta = qty - (have.get(sku) ?? 0);
      if (delta === 0) continue;
      inTime();
      await erp.adjust(warehouse, sku, delta);
      changed++;
    }
    return changed;
  });
}
