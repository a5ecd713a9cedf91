import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

const hosts = (process.env.LOCK_NODES ?? 'lock-a,lock-b,lock-c,lock-d').split(',');

// four standalone servers, one per availability zone
const nodes = hosts.map((host) => {
  const node = new Redis({ host, commandTimeout: 200, maxRetriesPerRequest: 0, enableOfflineQueue: false });
  node.on('error', (err) => console.warn(`lock node ${host}`, err.message));
  return node;
});
const quorum = Math.ceil(nodes.length / 2);

const TTL_MS = 30_000;
const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

interface Lease {
  key: string;
  token: string;
  validUntil: number;
}

async function releaseAll(key: string, token: string): Promise<void> {
  await Promise.allSettled(nodes.map((node) => node.eval(UNLOCK, 1, key, token)));
}

async function acquire(key: string, attempts = 10): Promise<Lease | null> {
  for (let i = 0; i < attempts; i++) {
    const token = randomUUID();
    const startedAt = performance.now();
    const replies = await Promise.allSettled(
      nodes.map((node) => node.set(key, token, 'PX', TTL_MS, 'NX')),
    );
    const votes = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
    const drift = TTL_MS * 0.01 + 2;
    const validUntil = startedAt + TTL_MS - drift;

    if (votes >= quorum && performance.now() < validUntil - 25_000) {
      return { key, token, validUntil };
    }
    await releaseAll(key, token);
    await sleep(100 + Math.random() * 200);
  }
  return null;
}

async function gameApi<T>(method: string, path: string, lease: Lease, body?: unknown): Promise<T> {
  const left = lease.validUntil - performance.now();
  if (left <= 5_000) throw new Error('auction lease is running out');
  const res = await fetch(`${process.env.GAME_API}${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(4_000),
  });
  if (!res.ok) throw new Error(`${method} ${path}: ${res.status}`);
  return (await res.json()) as T;
}

interface Auction {
  state: 'running' | 'closed';
  sellerId: string;
  itemId: string;
  highest?: { playerId: string; gold: number };
}

/** Called by the timer of every game server when the auction runs out. */
export async function closeAuction(auctionId: string): Promise<boolean> {
  const lease = await acquire(`auction:${auctionId}:closing`);
  if (!lease) return false;
  let settling = false;
  try {
    const auction = await gameApi<Auction>('GET', `/auctions/${auctionId}`, lease);
    if (auction.state === 'closed') return false;

    // mails item and gold and closes the auction
    settling = true;
    await gameApi('POST', '/settlements', lease, {
      auctionId,
      itemTo: auction.highest?.playerId ?? auction.sellerId,
      itemId: auction.itemId,
      gold: auction.highest?.gold ?? 0,
      goldTo: auction.sellerId,
    });
    settling = false;
    return true;
  } finally {
    // after a failed settlement we don't know its outcome, the lease has to run out then
    if (!settling) await releaseAll(lease.key, lease.token);
  }
}
