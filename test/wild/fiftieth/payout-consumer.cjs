const amqp = require('amqplib');
const crypto = require('crypto');
const axios = require('axios');
const Redis = require('ioredis');
const { Pool } = require('pg');

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2000, maxRetriesPerRequest: 1 });
redis.on('error', (e) => console.error('redis', e.message));
const pool = new Pool({ statement_timeout: 4000 });

const TTL = 15000;
const RENEW = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end';
const RELEASE = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

function acquire(key, attempts) {
  const token = crypto.randomBytes(16).toString('hex');
  const since = Date.now();
  return redis.set(key, token, 'PX', TTL, 'NX').then((r) => {
    if (r === 'OK') return { key, token, lost: false, until: since + TTL };
    if (attempts <= 1) throw new Error(key + ' is locked');
    return new Promise((ok) => setTimeout(ok, 500)).then(() => acquire(key, attempts - 1));
  });
}

function keepAlive(lease) {
  lease.timer = setInterval(() => {
    const since = Date.now();
    redis
      .eval(RENEW, 1, lease.key, lease.token, TTL)
      .then((ok) => {
        if (ok === 1) {
          lease.until = since + TTL;
        } else {
          lease.lost = true;
          clearInterval(lease.timer);
        }
      })
      .catch((e) => console.warn('renew', lease.key, e.message));
  }, TTL / 3);
}

function assertOurs(lease) {
  if (lease.lost || Date.now() > lease.until - 2000) throw new Error('lost ' + lease.key);
}

function release(lease) {
  return redis
    .eval(RELEASE, 1, lease.key, lease.token)
    .catch((e) => console.warn('release', lease.key, e.message));
}

function payMerchant(msg, lease) {
  return pool
    .query("SELECT id, amount FROM payouts WHERE merchant_id = $1 AND state = 'open' ORDER BY id", [msg.merchantId])
    .then((res) =>
      res.rows.reduce(
        (chain, p) =>
          chain
            .then(() => {
              assertOurs(lease);
              return axios.post(process.env.PSP_URL + '/payouts', { merchant: msg.merchantId, amount: p.amount }, {
                timeout: 8000,
                headers: { 'Idempotency-Key': 'payout-' + p.id },
              });
            })
            .then(() => pool.query("UPDATE payouts SET state = 'paid' WHERE id = $1 AND state = 'open'", [p.id])),
        Promise.resolve()
      )
    );
}

function handle(msg) {
  return acquire('payouts:' + msg.merchantId, 10).then((lease) => {
    keepAlive(lease);
    return payMerchant(msg, lease).then(() => {
      clearInterval(lease.timer);
      return release(lease);
    });
  });
}

amqp
  .connect(process.env.AMQP_URL)
  .then((conn) => conn.createChannel())
  .then((ch) =>
    ch
      .assertQueue('payout.requests', { durable: true })
      .then(() => ch.prefetch(4))
      .then(() =>
        ch.consume('payout.requests', (m) => {
          if (!m) return;
          Promise.resolve()
            .then(() => handle(JSON.parse(m.content.toString())))
            .then(() => ch.ack(m))
            .catch((e) => {
              console.error('payout', e.message);
              setTimeout(() => ch.nack(m, false, true), 3000);
            });
        })
      )
  )
  .catch((e) => {
    console.error(e);
    process.exit(1);
  });
