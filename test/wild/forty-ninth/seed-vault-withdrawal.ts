import Redis from 'ioredis';
import axios from 'axios';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { knex } from '../db/knex';
import { logger } from '../logger';

// Five stand-alone instances, none of them replicates another.
const nodes = process.env.VAULT_REDIS_NODES!.split(',').map(
  (url) => new Redis(url, { commandTimeout: 150, maxRetriesPerRequest: 0, enableOfflineQueue: false }),
);
nodes.forEach((node, i) => node.on('error', (err) => logger.debug({ err, node: i }, 'vault redis')));

const QUORUM = Math.floor(nodes.length / 2) + 1;
const TTL_MS = 30_000;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;

const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

interface Held {
  resource: string;
  token: string;
  validUntil: number;
}

async function unlockEverywhere(resource: string, token: string): Promise<void> {
  await Promise.allSettled(nodes.map((node) => node.eval(UNLOCK, 1, resource, token)));
}

async function lock(resource: string, attempts = 12): Promise<Held | null> {
  for (let i = 0; i < attempts; i++) {
    const token = randomBytes(20).toString('hex');
    const startedAt = performance.now();
    const replies = await Promise.allSettled(
      nodes.map((node) => node.set(resource, token, 'PX', TTL_MS, 'NX')),
    );
    const granted = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
    const validUntil = startedAt + TTL_MS - DRIFT_MS;
    if (granted >= QUORUM && performance.now() < validUntil - 5_000) {
      return { resource, token, validUntil };
    }
    await unlockEverywhere(resource, token);
    await sleep(100 + Math.random() * 400);
  }
  return null;
}

async function pick(aisle: number, withdrawalId: string, box: string, signal: AbortSignal) {
  const crane = `${process.env.CRANE_URL}/aisles/${aisle}`;
  const status = await axios.get(crane, { signal });
  await axios.post(`${crane}/pick`, { box }, {
    signal,
    // The controller refuses a pick when the aisle has moved on from the tag.
    headers: { 'If-Match': status.headers.etag, 'Idempotency-Key': withdrawalId },
  });
}

export async function withdraw(withdrawalId: string): Promise<'picked' | 'busy' | 'not-approved'> {
  const request = await knex('withdrawals').where({ id: withdrawalId }).first();
  if (!request) throw new Error(`no withdrawal ${withdrawalId}`);

  const held = await lock(`vault:aisle:${request.aisle}`);
  if (!held) return 'busy';
  try {
    const signal = AbortSignal.timeout(Math.max(1, Math.floor(held.validUntil - performance.now() - 2_000)));

    const claimed = await knex.transaction(async (trx) => {
      const moved = await trx('withdrawals')
        .where({ id: withdrawalId, state: 'approved', revision: request.revision })
        .update({ state: 'dispatched' });
      if (moved === 0) return false;
      const taken = await trx('accessions')
        .where({ id: request.accession_id })
        .andWhere('packets', '>=', request.packets)
        .decrement('packets', request.packets);
      if (taken === 0) throw new Error(`accession ${request.accession_id} has too few packets`);
      return true;
    });
    if (!claimed) return 'not-approved';

    // A dispatched withdrawal without a pick is repeated by the reconcile job under the same key.
    await pick(request.aisle, withdrawalId, request.box, signal);
    await knex('withdrawals').where({ id: withdrawalId, state: 'dispatched' }).update({ state: 'picked' });
    return 'picked';
  } finally {
    await unlockEverywhere(held.resource, held.token);
  }
}
