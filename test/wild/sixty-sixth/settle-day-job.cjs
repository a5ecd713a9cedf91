'use strict';

const net = require('node:net');
const crypto = require('node:crypto');

/** Tiny Redis connection, enough for the job's lock. */
class MiniRedis {
  constructor(host, port) {
    this.pending = [];
    this.buf = '';
    this.socket = net.connect({ host, port });
    this.socket.setEncoding('utf8');
    this.socket.setTimeout(10_000, () => {
      if (this.pending.length > 0) this.abort(new Error('redis: no answer'));
    });
    this.socket.on('data', (text) => {
      this.buf += text;
      this.drain();
    });
    this.socket.on('error', (err) => this.abort(err));
    this.socket.on('close', () => this.abort(new Error('redis: closed')));
  }

  abort(err) {
    this.closed = err;
    this.socket.destroy();
    for (const p of this.pending.splice(0)) p.reject(err);
  }

  send(...parts) {
    if (this.closed) return Promise.reject(this.closed);
    const frame = parts
      .map((p) => String(p))
      .reduce((acc, p) => `${acc}$${Buffer.byteLength(p)}\r\n${p}\r\n`, `*${parts.length}\r\n`);
    return new Promise((resolve, reject) => {
      this.pending.push({ resolve, reject });
      this.socket.write(frame);
    });
  }

  // values are ascii here (tokens, numbers), so characters are bytes
  drain() {
    for (;;) {
      const eol = this.buf.indexOf('\r\n');
      if (eol === -1) return;
      const type = this.buf[0];
      const head = this.buf.slice(1, eol);
      let value;
      let used = eol + 2;
      if (type === ':') {
        value = Number(head);
      } else if (type === '$') {
        const len = Number(head);
        if (len < 0) {
          value = null;
        } else {
          if (this.buf.length < used + len + 2) return;
          value = this.buf.slice(used, used + len);
          used += len + 2;
        }
      } else {
        value = head;
      }
      this.buf = this.buf.slice(used);
      const p = this.pending.shift();
      if (p) p.resolve(value);
    }
  }

  end() {
    this.socket.end();
  }
}

const UNLOCK = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0';
const LOCK_MS = 10 * 60 * 1000;
const WORK_MS = 8 * 60 * 1000;

async function acquire(redis, key, token) {
  const reply = await redis.send('SET', key, token, 'NX', 'PX', LOCK_MS);
  return reply !== null;
}

/**
 * Books the card settlements of one day. The acquirer file has no ids, so a second
 * run of the same file at the same time books everything twice.
 *
 * @param {{ files: any, bookings: any, log: any, redisHost?: string, redisPort?: number }} deps
 */
async function settleDay(day, deps) {
  const { files, bookings, log } = deps;
  const redis = new MiniRedis(
    deps.redisHost || process.env.REDIS_HOST || '127.0.0.1',
    Number(deps.redisPort || process.env.REDIS_PORT || 6379),
  );
  const key = `settle-day:${day}`;
  const token = crypto.randomBytes(16).toString('hex');

  try {
    if (!(await acquire(redis, key, token))) {
      log.info(`settle-day ${day}: running on another host`);
      return { status: 'skipped' };
    }

    try {
      const signal = AbortSignal.timeout(WORK_MS);
      if (await bookings.dayIsClosed(day)) {
        return { status: 'already-closed' };
      }
      const lines = await files.download(`settlement-${day}.txt`, { signal });
      // one transaction: all lines and the closing of the day
      const booked = await bookings.bookAndClose(day, lines, { signal });
      log.info(`settle-day ${day}: ${booked} lines booked`);
      return { status: 'booked', booked };
    } finally {
      await redis.send('EVAL', UNLOCK, 1, key, token).catch((err) => {
        log.warn(`settle-day ${day}: unlock failed: ${err.message}`);
      });
    }
  } finally {
    redis.end();
  }
}

module.exports = { settleDay, MiniRedis };

if (require.main === module) {
  const day = process.argv[2] || new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
  const { buildDeps } = require(process.env.SETTLE_DEPS || '/opt/settle/deps.cjs');
  settleDay(day, buildDeps()).then(
    (result) => console.log(JSON.stringify({ day, ...result })),
    (err) => {
      console.error(err);
      process.exitCode = 1;
    },
  );
}
