import net from 'node:net';
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import axios from 'axios';

// The edge boxes have no room for a Redis library; four reply types are all we need.
class MiniRedis {
  constructor(host, port) {
    this.pending = [];
    this.buffer = Buffer.alloc(0);
    this.dead = null;
    this.socket = net.connect({ host, port });
    this.socket.on('data', (chunk) => this.onData(chunk));
    this.socket.on('error', (err) => this.fail(err));
    this.socket.on('close', () => this.fail(new Error('redis connection closed')));
  }

  fail(err) {
    this.dead ??= err;
    for (const p of this.pending.splice(0)) p.reject(err);
  }

  call(...args) {
    if (this.dead) return Promise.reject(this.dead);
    const parts = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.socket.destroy(new Error('redis timeout')), 3000);
      const settle = (fn) => (value) => {
        clearTimeout(timer);
        fn(value);
      };
      this.pending.push({ resolve: settle(resolve), reject: settle(reject) });
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
        value = null;
        if (len >= 0) {
          if (this.buffer.length < end + len + 2) return;
          value = this.buffer.toString('utf8', end, end + len);
          end += len + 2;
        }
      }
      this.buffer = this.buffer.subarray(end);
      const p = this.pending.shift();
      if (type === '-') p.reject(new Error(head));
      else p.resolve(value);
    }
  }
}

const UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });

async function store(feedId, cursor, page) {
  const client = await pool.connect();
  try {
    await client.query('begin');
    const moved = await client.query(
      'update feeds set cursor = $2 where id = $1 and cursor is not distinct from $3',
      [feedId, page.next, cursor],
    );
    if (moved.rowCount !== 1) throw new Error(`feed ${feedId} was moved on by someone else`);
    for (const item of page.items) {
      await client.query('insert into feed_items (feed_id, external_id, payload) values ($1, $2, $3) on conflict do nothing', [
        feedId, item.id, JSON.stringify(item),
      ]);
    }
    await client.query('commit');
  } catch (err) {
    await client.query('rollback').catch(() => {});
    throw err;
  } finally {
    client.release();
  }
}

export async function pull(feedId) {
  const redis = new MiniRedis(process.env.REDIS_HOST ?? '127.0.0.1', 6379);
  const key = `feed:${feedId}:pull`;
  const token = randomBytes(16).toString('hex');
  try {
    if ((await redis.call('SET', key, token, 'NX', 'PX', 45_000)) !== 'OK') return 'busy';
    try {
      const { rows } = await pool.query('select url, cursor from feeds where id = $1', [feedId]);
      const { data } = await axios.get(rows[0].url, { params: { after: rows[0].cursor }, timeout: 20_000 });
      if (!data.items.length) return 'empty';
      await store(feedId, rows[0].cursor, data);
      return 'pulled';
    } finally {
      await redis.call('EVAL', UNLOCK, 1, key, token).catch(() => {});
    }
  } finally {
    redis.socket.destroy();
  }
}
