import Fastify from 'fastify';
import Redis from 'ioredis';
import pg from 'pg';
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock5';

const app = Fastify({ logger: true });
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 5_000 });
const redis = new Redis(process.env.REDIS_URL);
redis.on('error', (err) => app.log.error(err, 'redis'));

const redlock = new Redlock([redis], {
  retryCount: 5,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 2_000,
});
redlock.on('error', (err) => {
  if (err instanceof ResourceLockedError) return; // ordinary contention
  app.log.warn(err, 'redlock');
});

const check = (signal) => {
  if (signal.aborted) throw signal.error ?? new Error('lock lost');
};

async function transfer(payout) {
  const res = await fetch(`${process.env.BANK_API}/transfers`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      // the bank answers a repeated key with the first transfer
      'idempotency-key': `payout-${payout.id}`,
    },
    body: JSON.stringify({ iban: payout.iban, cents: payout.cents }),
    signal: AbortSignal.timeout(8_000),
  });
  if (!res.ok) throw new Error(`bank answered ${res.status}`);
  return res.json();
}

app.post('/payouts/:id/send', async (request, reply) => {
  const { id } = request.params;
  let entered = false;
  let outcome;

  try {
    await redlock.using([`locks:payout:${id}`], 10_000, async (signal) => {
      entered = true;
      const { rows } = await db.query('SELECT id, iban, cents, status, transfer_id FROM payouts WHERE id = $1', [id]);
      const payout = rows[0];
      if (!payout) {
        outcome = { code: 404, body: { error: 'no such payout' } };
        return;
      }
      if (payout.status !== 'pending') {
        outcome = { code: 200, body: { id, transferId: payout.transfer_id } };
        return;
      }
      check(signal);
      const { id: transferId } = await transfer(payout);
      // not guarded by the signal: the transfer has happened and must be recorded; the condition makes it safe
      await db.query(
        `UPDATE payouts SET status = 'sent', transfer_id = $2 WHERE id = $1 AND status = 'pending'`,
        [id, transferId],
      );
      outcome = { code: 200, body: { id, transferId } };
    });
  } catch (err) {
    if (err instanceof ExecutionError && !entered) {
      return reply.code(409).send({ error: 'payout is locked, try again later' });
    }
    if (!outcome) throw err;
    request.log.warn(err, 'payout finished but the lock could not be released');
  }
  return reply.code(outcome.code).send(outcome.body);
});

await app.listen({ port: 3000, host: '0.0.0.0' });
