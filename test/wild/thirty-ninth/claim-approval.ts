import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { and, eq, sum } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { integer, pgTable, serial, text, timestamp } from 'drizzle-orm/pg-core';
import Redis from 'ioredis';
import { Pool } from 'pg';

const claims = pgTable('claims', {
  id: serial('id').primaryKey(),
  coverageCents: integer('coverage_cents').notNull(),
});

const claimItems = pgTable('claim_items', {
  id: serial('id').primaryKey(),
  claimId: integer('claim_id').notNull(),
  status: text('status').notNull(),
  approvedCents: integer('approved_cents'),
});

const auditLog = pgTable('audit_log', {
  id: serial('id').primaryKey(),
  claimId: integer('claim_id').notNull(),
  entry: text('entry').notNull(),
  createdAt: timestamp('created_at').defaultNow().notNull(),
});

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const db = drizzle(new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 2_000 }));

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

async function withLock<T>(key: string, fn: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  const until = Date.now() + 5_000;
  while ((await redis.set(key, token, 'PX', 15_000, 'NX')) !== 'OK') {
    if (Date.now() > until) throw new Error(`${key} is locked`);
    await sleep(60 + Math.random() * 60);
  }
  try {
    return await fn();
  } finally {
    await redis.eval(RELEASE, 1, key, token).catch((err) => console.error('unlock', key, err));
  }
}

export class CoverageExceeded extends Error {}

/** The approved items of a claim must never add up to more than its coverage. */
export async function approveItem(claimId: number, itemId: number, cents: number, clerk: string) {
  return db.transaction(async (tx) => {
    const total = await withLock(`lock:claim:${claimId}`, async () => {
      const [claim] = await tx.select().from(claims).where(eq(claims.id, claimId));
      if (!claim) throw new Error(`no claim ${claimId}`);

      const [approved] = await tx
        .select({ cents: sum(claimItems.approvedCents) })
        .from(claimItems)
        .where(and(eq(claimItems.claimId, claimId), eq(claimItems.status, 'approved')));

      const next = Number(approved?.cents ?? 0) + cents;
      if (next > claim.coverageCents) throw new CoverageExceeded(`claim ${claimId}`);

      const changed = await tx
        .update(claimItems)
        .set({ status: 'approved', approvedCents: cents })
        .where(and(eq(claimItems.id, itemId), eq(claimItems.claimId, claimId), eq(claimItems.status, 'open')))
        .returning({ id: claimItems.id });
      if (changed.length !== 1) throw new Error(`item ${itemId} is not open`);
      return next;
    });

    await tx.insert(auditLog).values({
      claimId,
      entry: `${clerk} approved item ${itemId} with ${cents} cents, total ${total}`,
    });
    return total;
  });
}
