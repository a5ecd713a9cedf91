import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import type { Knex } from 'knex';
import pino from 'pino';
import { db } from '../db/client';

const log = pino({ name: 'renumber' });
const redis = new Redis(process.env.REDIS_URL!);

const TTL_MS = 15_000;

const TAKE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class LedgerBusyError extends Error {
  readonly status = 423;
}

/**
 * Closes the gaps in a ledger's voucher numbers after the auditors voided some of them.
 * Ledgers range from twenty to four million vouchers, so this takes anything between
 * a blink and several minutes. Redis keeps two clerks from clicking at the same time.
 */
export async function renumberLedger(ledgerId: number, clerk: string): Promise<number> {
  const lockKey = `{ledger:${ledgerId}}:renumber`;
  const seqKey = `{ledger:${ledgerId}}:renumber:seq`;
  const token = randomUUID();

  const seq = Number(await redis.eval(TAKE, 2, lockKey, seqKey, token, TTL_MS));
  if (seq === 0) throw new LedgerBusyError(`ledger ${ledgerId} is being renumbered`);

  try {
    return await db.transaction(async (trx) => {
      await claim(trx, ledgerId, seq);
      const updated = await closeGaps(trx, ledgerId);
      await trx('ledger_audit').insert({ ledger_id: ledgerId, clerk, action: 'renumber', seq, updated });
      log.info({ ledgerId, clerk, seq, updated }, 'renumbered');
      return updated;
    });
  } finally {
    await redis.eval(DROP, 1, lockKey, token).catch((err) => log.warn({ err, ledgerId }, 'unlock'));
  }
}

async function claim(trx: Knex.Transaction, ledgerId: number, seq: number): Promise<void> {
  const rows = await trx('ledgers')
    .where({ id: ledgerId })
    .andWhere('renumber_seq', '<', seq)
    .update({ renumber_seq: seq });
  if (rows !== 1) throw new LedgerBusyError(`ledger ${ledgerId}: a later run has been here (${seq})`);
}

async function closeGaps(trx: Knex.Transaction, ledgerId: number): Promise<number> {
  // voucher_no has a deferred unique constraint, so one statement is enough
  const result = await trx.raw(
    `UPDATE vouchers v
        SET voucher_no = n.rn
       FROM (SELECT id, row_number() OVER (ORDER BY booked_on, id) AS rn
               FROM vouchers
              WHERE ledger_id = ? AND voided_at IS NULL) n
      WHERE v.id = n.id AND v.voucher_no <> n.rn`,
    [ledgerId],
  );
  return result.rowCount as number;
}
