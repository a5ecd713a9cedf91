import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { Pool } from 'pg';
import { generateKeyPair, exportJWK, exportPKCS8 } from 'jose';

const UNLOCK = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0`;

// Five stand-alone instances, one per availability zone; no replication between them.
const nodes = (process.env.LOCK_NODES ?? '').split(',').map(
  (url) =>
    new Redis(url, {
      commandTimeout: 150,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      enableOfflineQueue: false,
    }),
);
for (const node of nodes) node.on('error', () => {});

export class Busy extends Error {}

export class QuorumMutex {
  private readonly need: number;

  constructor(private readonly members: Redis[]) {
    if (members.length < 3) throw new Error('need three nodes or more');
    this.need = Math.floor(members.length / 2) + 1;
  }

  async run<T>(name: string, ttl: number, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `mutex:${name}`;
    for (let attempt = 0; attempt < 4; attempt++) {
      const token = randomBytes(20).toString('hex');
      const start = process.hrtime.bigint();
      const answers = await Promise.allSettled(
        this.members.map((m) => m.set(key, token, 'PX', ttl, 'NX')),
      );
      const votes = answers.filter((a) => a.status === 'fulfilled' && a.value === 'OK').length;
      const spent = Number((process.hrtime.bigint() - start) / 1_000_000n) + 1;
      const left = ttl - spent - Math.ceil(ttl * 0.01) - 2;
      try {
        if (votes >= this.need && left > ttl / 2) {
          return await fn(AbortSignal.timeout(left));
        }
      } finally {
        await this.free(key, token);
      }
      await sleep(100 + Math.random() * 300);
    }
    throw new Busy(name);
  }

  private async free(key: string, token: string): Promise<void> {
    await Promise.allSettled(this.members.map((m) => m.eval(UNLOCK, 1, key, token)));
  }
}

const mutex = new QuorumMutex(nodes);

export function rotateSigningKey(db: Pool, issuer: string): Promise<number> {
  return mutex.run(`jwks:${issuer}`, 20_000, async (signal) => {
    const before = await db.query('SELECT generation FROM issuers WHERE name = $1', [issuer]);
    const generation: number = before.rows[0].generation;
    const pair = await generateKeyPair('ES256', { extractable: true });
    const jwk = await exportJWK(pair.publicKey);
    const pem = await exportPKCS8(pair.privateKey);
    signal.throwIfAborted();

    const done = await db.query(
      `UPDATE issuers
          SET generation = generation + 1, previous_jwk = current_jwk, current_jwk = $3, private_pem = $4
        WHERE name = $1 AND generation = $2`,
      [issuer, generation, JSON.stringify(jwk), pem],
    );
    if (done.rowCount !== 1) throw new Error(`issuer ${issuer} was rotated by another process`);
    return generation + 1;
  });
}
