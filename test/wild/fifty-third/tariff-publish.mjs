import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import axios from 'axios';
import pino from 'pino';

const log = pino({ name: 'tariff-publish' });

const hosts = (process.env.LOCK_NODES ?? 'lock-a:6379,lock-b:6379,lock-c:6379,lock-d:6379,lock-e:6379').split(',');

const nodes = hosts.map((host) => {
  const node = new Redis(`redis://${host}`, {
    commandTimeout: 150,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
  });
  node.on('error', (err) => log.debug({ host, err: err.message }, 'lock node'));
  return node;
});

const NEEDED = Math.floor(nodes.length / 2) + 1;
const REMOVE = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

export class LockUnavailable extends Error {
  constructor(resource, attempts) {
    super(`could not lock ${resource} in ${attempts} attempts`);
    this.name = 'LockUnavailable';
  }
}

async function removeEverywhere(resource, token) {
  await Promise.allSettled(nodes.map((node) => node.eval(REMOVE, 1, resource, token)));
}

async function acquire(resource, { ttlMs, minLeftMs, attempts }) {
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    const token = randomBytes(20).toString('hex');
    const startedAt = performance.now();
    const answers = await Promise.allSettled(
      nodes.map((node) => node.set(resource, token, 'PX', ttlMs, 'NX')),
    );
    const votes = answers.filter((a) => a.status === 'fulfilled' && a.value === 'OK').length;
    const drift = Math.ceil(ttlMs * 0.01) + 2;
    const leftMs = Math.floor(ttlMs - (performance.now() - startedAt) - drift);

    if (votes >= NEEDED && leftMs >= minLeftMs) return { token, leftMs };

    log.debug({ resource, votes, leftMs, attempt }, 'no majority');
    await removeEverywhere(resource, token);
    await sleep(100 + Math.random() * 300);
  }
  throw new LockUnavailable(resource, attempts);
}

export async function withMajority(resource, fn, options = {}) {
  const settings = { ttlMs: 20_000, minLeftMs: 15_000, attempts: 8, ...options };
  const { token, leftMs } = await acquire(resource, settings);
  try {
    return await fn(AbortSignal.timeout(leftMs));
  } finally {
    await removeEverywhere(resource, token);
  }
}

export async function publishTariff(market, changes) {
  return withMajority(`tariff:${market}`, async (signal) => {
    const url = `${process.env.TARIFF_API}/markets/${market}/tariff`;
    const current = await axios.get(url, { signal, timeout: 4_000 });
    const next = { ...current.data, ...changes, revision: current.data.revision + 1 };
    signal.throwIfAborted();
    await axios.put(url, next, {
      signal,
      timeout: 6_000,
      headers: { 'If-Match': current.headers.etag },
    });
    log.info({ market, revision: next.revision }, 'tariff published');
    return next.revision;
  });
}
