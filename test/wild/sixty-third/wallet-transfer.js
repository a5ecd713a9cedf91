import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import { withTransaction } from '../db.js';

const LOCK_TTL_MS = 20_000;
const TX_TIMEOUT_MS = 8_000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

class TransferError extends Error {
  constructor(statusCode, message) {
    super(message);
    this.name = 'TransferError';
    this.statusCode = statusCode;
  }
}

async function tryLock(redis, key) {
  const token = randomUUID();
  const reply = await redis.set(key, token, { NX: true, PX: LOCK_TTL_MS });
  if (reply !== 'OK') return null;

  return {
    async unlock() {
      await redis.eval(UNLOCK, { keys: [key], arguments: [token] });
    },
  };
}

async function loadWallet(tx, walletId) {
  const { rows } = await tx.query('SELECT id, currency, balance FROM wallets WHERE id = $1', [walletId]);
  if (rows.length === 0) throw new TransferError(404, `no wallet ${walletId}`);
  return { ...rows[0], balance: BigInt(rows[0].balance) };
}

async function storeBalance(tx, walletId, balance) {
  await tx.query('UPDATE wallets SET balance = $2, updated_at = now() WHERE id = $1', [
    walletId,
    balance.toString(),
  ]);
}

async function moveMoney({ transferId, from, to, amount }) {
  return withTransaction({ timeoutMs: TX_TIMEOUT_MS }, async (tx) => {
    const earlier = await tx.query('SELECT id, status FROM transfers WHERE id = $1', [transferId]);
    if (earlier.rows.length > 0) return earlier.rows[0];

    const source = await loadWallet(tx, from);
    const target = await loadWallet(tx, to);
    if (source.currency !== target.currency) {
      throw new TransferError(422, 'wallets have different currencies');
    }
    if (source.balance < amount) throw new TransferError(409, 'insufficient funds');

    await storeBalance(tx, from, source.balance - amount);
    await storeBalance(tx, to, target.balance + amount);
    await tx.query(
      `INSERT INTO transfers (id, from_wallet, to_wallet, amount, status)
       VALUES ($1, $2, $3, $4, 'done')`,
      [transferId, from, to, amount.toString()],
    );
    return { id: transferId, status: 'done' };
  });
}

/** Fastify plugin: POST /transfers with an Idempotency-Key header. */
export default async function transferRoutes(app, { redisUrl }) {
  const redis = createClient({ url: redisUrl, disableOfflineQueue: true });
  redis.on('error', (err) => app.log.warn({ err }, 'redis'));
  await redis.connect();
  app.addHook('onClose', () => redis.quit());

  app.post('/transfers', async (request, reply) => {
    const transferId = request.headers['idempotency-key'];
    const { from, to, amount } = request.body;
    if (!transferId) return reply.code(400).send({ error: 'Idempotency-Key is missing' });
    if (from === to || BigInt(amount) <= 0n) return reply.code(422).send({ error: 'bad transfer' });

    // Balances are read and written back, so transfers have to take turns.
    const lock = await tryLock(redis, `lock:wallet-transfer:${transferId}`);
    if (!lock) return reply.code(409).send({ error: 'transfer in progress' });

    try {
      const transfer = await moveMoney({ transferId, from, to, amount: BigInt(amount) });
      reply.code(201);
      return transfer;
    } catch (err) {
      if (!(err instanceof TransferError)) throw err;
      reply.code(err.statusCode);
      return { error: err.message };
    } finally {
      await lock.unlock().catch((err) => request.log.warn({ err }, 'transfer lock not released'));
    }
  });
}
