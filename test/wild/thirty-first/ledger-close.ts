#!/usr/bin/env node
/*
 * ledger-close --month 2024-05 --entity DE01
 *
 * Closes the books of one entity for a month: carries the balances forward and writes the closing file
 * to CLOSING_DIR. Operators start it by hand, from whichever site is on duty.
 * LOCK_NODES lists independent redis servers, one per site.
 */
import { randomBytes } from 'node:crypto';
import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import Redis from 'ioredis';

const TTL = 60_000;
const DRIFT = Math.ceil(TTL * 0.01) + 2;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

interface Entry {
  account: string;
  cents: number;
}

async function unlock(nodes: Redis[], key: string, token: string): Promise<void> {
  await Promise.allSettled(nodes.map((n) => n.eval(UNLOCK, 1, key, token)));
}

/** Resolves to the point in time (performance.now() scale) up to which the lock is ours, or null. */
async function lock(nodes: Redis[], key: string, token: string): Promise<number | null> {
  const majority = Math.floor(nodes.length / 2) + 1;
  const startedAt = performance.now();
  const replies = await Promise.allSettled(nodes.map((n) => n.set(key, token, 'PX', TTL, 'NX')));

  const locked = replies.filter((r) => r.status === 'fulfilled').length;
  const validUntil = startedAt + TTL - DRIFT;
  if (locked >= majority && performance.now() < validUntil) return validUntil;

  await unlock(nodes, key, token);
  return null;
}

async function readEntries(dir: string, entity: string, month: string): Promise<Entry[]> {
  const text = await readFile(join(dir, entity, `${month}.journal`), 'utf8');
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [account, cents] = line.split(';');
      return { account, cents: Number.parseInt(cents, 10) };
    });
}

async function closeMonth(entity: string, month: string, validUntil: number): Promise<number> {
  const dir = process.env.CLOSING_DIR ?? '/var/lib/ledger';
  const balances = new Map<string, number>();
  for (const { account, cents } of await readEntries(dir, entity, month)) {
    balances.set(account, (balances.get(account) ?? 0) + cents);
  }
  const lines = [...balances].sort().map(([account, cents]) => `${month};${account};${cents}`);

  await mkdir(join(dir, 'closed'), { recursive: true });
  const file = join(dir, 'closed', `${entity}.ledger`);
  const before = await readFile(file, 'utf8').catch((e) => {
    if (e.code === 'ENOENT') return '';
    throw e;
  });
  if (before.includes(`\n${month};`) || before.startsWith(`${month};`)) {
    throw new Error(`${entity} ${month} is closed already`);
  }
  if (validUntil - performance.now() < TTL / 2) throw new Error('closing took too long, nothing written');
  await appendFile(file, lines.join('\n') + '\n', { flush: true });
  return lines.length;
}

async function main(): Promise<number> {
  const { values } = parseArgs({ options: { month: { type: 'string' }, entity: { type: 'string' } } });
  const { month, entity } = values;
  if (!month || !/^\d{4}-\d{2}$/.test(month) || !entity || !/^[A-Z0-9]+$/.test(entity)) {
    console.error('usage: ledger-close --month YYYY-MM --entity CODE');
    return 64;
  }
  const nodes = (process.env.LOCK_NODES ?? '').split(',').map(
    (url) => new Redis(url, { commandTimeout: 800, maxRetriesPerRequest: 0, enableReadyCheck: false }),
  );
  nodes.forEach((n) => n.on('error', () => undefined));

  const key = `ledger:close:${entity}`;
  const token = randomBytes(20).toString('hex');
  try {
    const validUntil = await lock(nodes, key, token);
    if (validUntil === null) {
      console.error(`${entity} is being closed elsewhere`);
      return 75;
    }
    try {
      console.log(`${entity} ${month}: ${await closeMonth(entity, month, validUntil)} balances carried`);
      return 0;
    } finally {
      await unlock(nodes, key, token);
    }
  } finally {
    nodes.forEach((n) => n.disconnect());
  }
}

main().then(
  (code) => (process.exitCode = code),
  (err) => {
    console.error(err);
    process.exitCode = 1;
  },
);
