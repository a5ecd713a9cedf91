// Settlement of toll gates. Runs on the gate computers, where we cannot install
// anything from npm except pg, hence the little Redis connection by hand.

import net from 'node:net';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

const timeouts = { connectionTimeoutMillis: 5000, query_timeout: 5000 };
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, ...timeouts });

class RedisConnection {
  #socket;
  #pending = [];
  #buffer = '';

  constructor(host, port) {
    this.#socket = net.connect({ host, port });
    this.#socket.setEncoding('utf8');
    this.#socket.setNoDelay(true);
    this.#socket.setTimeout(45_000, () => this.#socket.destroy());
    this.#socket.on('data', (chunk) => this.#read(chunk));
    this.#socket.on('error', (err) => this.#fail(err));
    this.#socket.on('close', () => this.#fail(new Error('redis connection closed')));
  }

  // everything we send is answered by one line: +OK, :1, $-1 or -ERR ...
  #read(chunk) {
    this.#buffer += chunk;
    let end;
    while ((end = this.#buffer.indexOf('\r\n')) !== -1) {
      const line = this.#buffer.slice(0, end);
      this.#buffer = this.#buffer.slice(end + 2);
      const waiter = this.#pending.shift();
      if (line.startsWith('-')) waiter?.reject(new Error(line.slice(1)));
      else waiter?.resolve(line);
    }
  }

  #fail(err) {
    for (const waiter of this.#pending.splice(0)) waiter.reject(err);
  }

  send(...args) {
    const parts = args.map(String).map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`);
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) return reject(new Error('redis connection closed'));
      this.#pending.push({ resolve, reject });
      this.#socket.write(`*${args.length}\r\n${parts.join('')}`);
    });
  }

  end() {
    this.#socket.end();
  }
}

const UNLOCK =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

async function acquire(redis, key, ttlMs, waitMs) {
  const token = randomUUID();
  const until = Date.now() + waitMs;
  do {
    const reply = await redis.send('SET', key, token, 'NX', 'PX', ttlMs);
    if (reply) return token;
    await sleep(200);
  } while (Date.now() < until);
  return null;
}

async function settleOpenPassages(plaza) {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    const { rows } = await db.query(
      `SELECT coalesce(sum(cents), 0) AS cents, array_agg(id) AS ids
         FROM passages WHERE plaza = $1 AND settled_at IS NULL`,
      [plaza],
    );
    const { cents, ids } = rows[0];
    if (ids) {
      await db.query('INSERT INTO settlements (plaza, cents) VALUES ($1, $2)', [plaza, cents]);
      await db.query('UPDATE passages SET settled_at = now() WHERE id = ANY($1)', [ids]);
    }
    await db.query('COMMIT');
    return { plaza, status: 'settled', cents };
  } catch (err) {
    await db.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

export async function settle(plaza) {
  const redis = new RedisConnection(process.env.REDIS_HOST ?? '127.0.0.1', 6379);
  const key = `settlement:${plaza}`;
  try {
    const token = await acquire(redis, key, 60_000, 15_000);
    if (!token) return { plaza, status: 'busy' };
    try {
      return await settleOpenPassages(plaza);
    } finally {
      await redis.send('EVAL', UNLOCK, 1, key, token).catch((err) => console.warn(key, err.message));
    }
  } finally {
    redis.end();
  }
}
