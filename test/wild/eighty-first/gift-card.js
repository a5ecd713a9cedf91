const os = require('node:os');
const express = require('express');
const { createClient } = require('redis');
const { Pool } = require('pg');
const logger = require('../lib/logger');

const router = express.Router();
const pool = new Pool({ statement_timeout: 3000, connectionTimeoutMillis: 2000 });
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => logger.error({ err }, 'redis'));
redis.connect();

const OWNER = `${os.hostname()}:${process.pid}`;
const TTL_MS = 20000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function lock(key) {
  const reply = await redis.set(key, OWNER, { NX: true, PX: TTL_MS });
  if (reply === 'OK') return true;
  // allow nested calls from checkout -> redeem
  const holder = await redis.get(key);
  return holder === OWNER;
}

function unlock(key) {
  return redis.eval(UNLOCK, { keys: [key], arguments: [OWNER] });
}

router.post('/gift-cards/:code/redeem', async (req, res, next) => {
  const { code } = req.params;
  const cents = Number(req.body.cents);
  const key = `gift-card:${code}`;

  try {
    if (!(await lock(key))) {
      return res.status(409).json({ error: 'card is in use, try again' });
    }
  } catch (err) {
    return next(err);
  }

  try {
    const { rows } = await pool.query('SELECT id, balance FROM gift_cards WHERE code = $1', [code]);
    if (!rows.length) return res.status(404).json({ error: 'unknown card' });
    const card = rows[0];
    if (card.balance < cents) return res.status(422).json({ error: 'insufficient balance' });

    await pool.query('INSERT INTO gift_card_uses (card_id, order_id, cents) VALUES ($1, $2, $3)', [
      card.id,
      req.body.orderId,
      cents,
    ]);
    await pool.query('UPDATE gift_cards SET balance = $2 WHERE id = $1', [card.id, card.balance - cents]);
    return res.json({ balance: card.balance - cents });
  } catch (err) {
    return next(err);
  } finally {
    await unlock(key).catch((err) => logger.warn({ err, key }, 'unlock failed'));
  }
});

module.exports = router;
