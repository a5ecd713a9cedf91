import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import mysql, { type ResultSetHeader, type RowDataPacket } from 'mysql2/promise';

const RELEASE = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end`;

export interface Grant {
  readonly resource: string;
  readonly token: string;
  /** milliseconds of validity left on this process's monotonic clock */
  left(): number;
}

export class QuorumLocks {
  private readonly quorum: number;

  constructor(
    private readonly nodes: Redis[],
    private readonly ttl = 10_000,
    private readonly attempts = 6,
  ) {
    if (nodes.length < 3) throw new Error('need at least three independent nodes');
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async acquire(resource: string): Promise<Grant> {
    for (let i = 0; i < this.attempts; i++) {
      const token = randomBytes(18).toString('base64url');
      const startedAt = performance.now();
      const replies = await Promise.allSettled(
        this.nodes.map((n) => n.set(resource, token, 'PX', this.ttl, 'NX')),
      );
      const votes = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
      const drift = this.ttl * 0.01 + 2;
      const validUntil = startedAt + this.ttl - drift;

      if (votes >= this.quorum && validUntil - performance.now() > this.ttl / 2) {
        return { resource, token, left: () => validUntil - performance.now() };
      }
      await this.clear(resource, token);
      await sleep(50 + Math.random() * 150);
    }
    throw new Error(`no majority for ${resource}`);
  }

  release(grant: Grant): Promise<void> {
    return this.clear(grant.resource, grant.token);
  }

  private async clear(resource: string, token: string): Promise<void> {
    // Also sent to the nodes that did not answer: the SET may have arrived there.
    await Promise.allSettled(this.nodes.map((n) => n.eval(RELEASE, 1, resource, token)));
  }
}

const locks = new QuorumLocks(
  process.env.LOCK_REDIS!.split(',').map((u) => new Redis(u, { commandTimeout: 250, enableOfflineQueue: false })),
);
const db = mysql.createPool({ uri: process.env.MYSQL_URL!, connectionLimit: 10, connectTimeout: 2_000 });

/**
 * Gives a user the lowest free seat. PRIMARY KEY (licence_id, seat_no), UNIQUE (licence_id, user_id);
 * rows are deleted when a seat is freed.
 */
export async function assignSeat(licenceId: number, userId: number): Promise<number | null> {
  const grant = await locks.acquire(`licence:${licenceId}`);
  try {
    const [[licence]] = await db.query<RowDataPacket[]>('SELECT seats FROM licences WHERE id = ?', [licenceId]);
    if (!licence) throw new Error(`licence ${licenceId} unknown`);
    const [taken] = await db.query<RowDataPacket[]>(
      'SELECT seat_no, user_id FROM licence_seats WHERE licence_id = ?',
      [licenceId],
    );
    const own = taken.find((r) => Number(r.user_id) === userId);
    if (own) return Number(own.seat_no);

    const used = new Set(taken.map((r) => Number(r.seat_no)));
    let seat = 1;
    while (used.has(seat)) seat++;
    if (seat > licence.seats) return null;

    if (grant.left() < 1_000) throw new Error('licence lock about to lapse, try again');
    const [res] = await db.execute<ResultSetHeader>(
      'INSERT INTO licence_seats (licence_id, seat_no, user_id) VALUES (?, ?, ?)',
      [licenceId, seat, userId],
    );
    if (res.affectedRows !== 1) throw new Error('seat not stored');
    return seat;
  } finally {
    await locks.release(grant);
  }
}
