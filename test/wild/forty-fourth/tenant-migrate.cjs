'use strict';
// Runs pending migrations of one tenant database. Part of the init container, so
// it must not drag in more than pg; Redis is spoken directly.

const { randomUUID } = require('node:crypto');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { Client } = require('pg');

const TENANT = process.env.TENANT;
const LOCK_KEY = `migrate:${TENANT}`;
const LOCK_MS = 180_000;
const DIR = process.env.MIGRATIONS_DIR || path.join(__dirname, 'migrations');

const RENEW = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('PEXPIRE',KEYS[1],ARGV[2]) end return 0";
const RELEASE = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";

class Resp {
  constructor(host, port) {
    this.pending = [];
    this.buffer = Buffer.alloc(0);
    this.socket = net.connect({ host, port });
    this.socket.setTimeout(5_000, () => {
      if (this.pending.length) this.socket.destroy(new Error('redis does not answer'));
    });
    this.socket.on('data', (chunk) => this.onData(chunk));
    this.socket.on('error', (err) => (this.failure = err));
    this.socket.on('close', () => {
      this.failure ??= new Error('redis connection closed');
      for (const p of this.pending.splice(0)) p.reject(this.failure);
    });
  }

  send(...args) {
    if (this.failure) return Promise.reject(this.failure);
    const parts = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`);
    return new Promise((resolve, reject) => {
      this.pending.push({ resolve, reject });
      this.socket.write(`*${args.length}\r\n${parts.join('')}`);
    });
  }

  onData(chunk) {
    this.buffer = Buffer.concat([this.buffer, chunk]);
    for (;;) {
      const eol = this.buffer.indexOf('\r\n');
      if (eol < 0) return;
      const type = String.fromCharCode(this.buffer[0]);
      const head = this.buffer.toString('utf8', 1, eol);
      let end = eol + 2;
      let value = head;
      if (type === ':') value = Number(head);
      if (type === '$') {
        const len = Number(head);
        if (len >= 0 && this.buffer.length < end + len + 2) return;
        value = len < 0 ? null : this.buffer.toString('utf8', end, end + len);
        end += len < 0 ? 0 : len + 2;
      }
      this.buffer = this.buffer.subarray(end);
      const waiter = this.pending.shift();
      if (type === '-') waiter.reject(new Error(head));
      else waiter.resolve(value);
    }
  }
}

async function apply(db, file) {
  const sql = fs.readFileSync(path.join(DIR, file), 'utf8');
  await db.query('BEGIN');
  try {
    // Goes in first: a second runner would hang on the primary key here and then fail.
    await db.query('INSERT INTO schema_migrations (version) VALUES ($1)', [file]);
    await db.query(sql);
    await db.query('COMMIT');
  } catch (err) {
    await db.query('ROLLBACK').catch(() => {});
    throw err;
  }
}

async function main() {
  const redis = new Resp(process.env.REDIS_HOST, Number(process.env.REDIS_PORT || 6379));
  if (process.env.REDIS_PASSWORD) await redis.send('AUTH', process.env.REDIS_PASSWORD);

  const token = randomUUID();
  if ((await redis.send('SET', LOCK_KEY, token, 'NX', 'PX', LOCK_MS)) !== 'OK') {
    redis.socket.destroy();
    throw new Error(`another pod is migrating ${TENANT}`); // kubelet restarts us
  }

  const db = new Client({ connectionString: process.env.DATABASE_URL, statement_timeout: 60_000 });
  try {
    await db.connect();
    const done = new Set((await db.query('SELECT version FROM schema_migrations')).rows.map((r) => r.version));
    const todo = fs.readdirSync(DIR).filter((f) => f.endsWith('.sql') && !done.has(f)).sort();
    for (const file of todo) {
      if ((await redis.send('EVAL', RENEW, 1, LOCK_KEY, token, LOCK_MS)) !== 1) throw new Error(`lock lost before ${file}`);
      await apply(db, file);
      console.log(`${TENANT}: ${file}`);
    }
  } finally {
    await redis.send('EVAL', RELEASE, 1, LOCK_KEY, token).catch((err) => console.warn(`release: ${err.message}`));
    redis.socket.destroy();
    await db.end().catch(() => {});
  }
}

main().catch((err) => {
  console.error(err.message);
  process.exit(1);
});
