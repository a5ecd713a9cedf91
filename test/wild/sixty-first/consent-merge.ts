import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';

import { config } from './config';

const log = pino({ name: 'consent-merge' });

const TTL_MS = 30_000;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;
const MERGE_BUDGET_MS = 18_000;
const ATTEMPTS = 4;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class ConsentLockError extends Error {}

interface Held {
  key: string;
  token: string;
  remaining(): number;
}

export class QuorumLock {
  private readonly nodes: Redis[];
  private readonly quorum: number;

  constructor(urls: string[]) {
    this.nodes = urls.map((url) => {
      const node = new Redis(url, { commandTimeout: 300, autoResendUnfulfilledCommands: false });
      node.on('error', (err) => log.debug({ err }, 'lock node error'));
      return node;
    });
    this.quorum = Math.floor(urls.length / 2) + 1;
  }

  async acquire(key: string): Promise<Held> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const held = await this.tryOnce(key);
      if (held) return held;
      if (attempt < ATTEMPTS) await sleep(150 + Math.random() * 250);
    }
    throw new ConsentLockError(`no majority for ${key} after ${ATTEMPTS} attempts`);
  }

  async release({ key, token }: Held): Promise<void> {
    await this.releaseEverywhere(key, token);
  }

  private async tryOnce(key: string): Promise<Held | null> {
    const token = randomBytes(16).toString('hex');
    const validUntil = performance.now() + TTL_MS - DRIFT_MS;
    const replies = await Promise.allSettled(
      this.nodes.map((node) => node.set(key, token, 'PX', TTL_MS, 'NX')),
    );
    const granted = replies.filter((reply) => reply.status === 'fulfilled').length;
    const remaining = () => validUntil - performance.now();
    if (granted >= this.quorum && remaining() > MERGE_BUDGET_MS) {
      return { key, token, remaining };
    }
    log.debug({ key, granted, quorum: this.quorum }, 'lock attempt failed');
    await this.releaseEverywhere(key, token);
    return null;
  }

  private async releaseEverywhere(key: string, token: string): Promise<void> {
    await Promise.allSettled(this.nodes.map((node) => node.eval(RELEASE, 1, key, token)));
  }
}

const locks = new QuorumLock(config.lockNodes);
const pool = new Pool({
  connectionString: config.databaseUrl,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 3_000,
});

type Consents = Record<string, { granted: boolean; at: string }>;

function mergeConsents(current: Consents, incoming: Consents): Consents {
  const merged: Consents = { ...current };
  for (const [purpose, decision] of Object.entries(incoming)) {
    const known = merged[purpose];
    if (!known || known.at < decision.at) merged[purpose] = decision;
  }
  return merged;
}

export async function applyConsents(patientId: string, incoming: Consents): Promise<Consents> {
  const held = await locks.acquire(`consent:${patientId}`);
  try {
    const { rows } = await pool.query<{ consents: Consents }>(
      'SELECT consents FROM patient_consents WHERE patient_id = $1',
      [patientId],
    );
    const merged = mergeConsents(rows[0]?.consents ?? {}, incoming);
    if (held.remaining() < MERGE_BUDGET_MS / 2) throw new ConsentLockError(`lock on ${patientId} is running out`);
    await pool.query(
      `INSERT INTO patient_consents (patient_id, consents) VALUES ($1, $2)
       ON CONFLICT (patient_id) DO UPDATE SET consents = EXCLUDED.consents, updated_at = now()`,
      [patientId, JSON.stringify(merged)],
    );
    log.info({ patientId, purposes: Object.keys(incoming) }, 'consents merged');
    return merged;
  } finally {
    await locks.release(held);
  }
}
