/**
 * tcp-lock: Redis locks without a client library (Node >= 20).
 */
import net from 'node:net';
import { randomUUID } from 'node:crypto';

const UNLOCK = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";

export class MiniRedis {
  #socket;
  #queue = [];
  #buffer = '';
  #closed = null;

  /** @param {{ host?: string, port?: number, commandTimeout?: number }} [options] */
  constructor({ host = '127.0.0.1', port = 6379, commandTimeout = 1_000 } = {}) {
    this.commandTimeout = commandTimeout;
    this.#socket = net.connect({ host, port, keepAlive: true, noDelay: true });
    this.#socket.setEncoding('latin1');
    this.#socket.on('data', (text) => this.#onData(text));
    this.#socket.on('error', (err) => this.#fail(err));
    this.#socket.on('close', () => this.#fail(new Error('connection closed')));
  }

  /** Sends one command; rejects if there is no reply within the command timeout. */
  command(...args) {
    if (this.#closed) return Promise.reject(this.#closed);
    return new Promise((resolve, reject) => {
      const entry = { resolve, reject, timer: null };
      entry.timer = setTimeout(() => {
        const at = this.#queue.indexOf(entry);
        if (at !== -1) this.#queue.splice(at, 1);
        reject(new Error(`${args[0]}: no reply after ${this.commandTimeout} ms`));
      }, this.commandTimeout);
      this.#queue.push(entry);
      const parts = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`);
      this.#socket.write(`*${args.length}\r\n${parts.join('')}`);
    });
  }

  close() {
    this.#socket.end();
  }

  #onData(text) {
    this.#buffer += text;
    for (;;) {
      const eol = this.#buffer.indexOf('\r\n');
      if (eol === -1) return;
      const type = this.#buffer[0];
      const line = this.#buffer.slice(1, eol);
      let end = eol + 2;
      let value = line;
      if (type === ':') value = Number(line);
      if (type === '$') {
        const length = Number(line);
        value = null;
        if (length >= 0) {
          if (this.#buffer.length < end + length + 2) return;
          value = this.#buffer.slice(end, end + length);
          end += length + 2;
        }
      }
      this.#buffer = this.#buffer.slice(end);
      const entry = this.#queue.shift();
      if (!entry) continue;
      clearTimeout(entry.timer);
      if (type === '-') entry.reject(new Error(line));
      else entry.resolve(value);
    }
  }

  #fail(err) {
    this.#closed ??= err;
    for (const entry of this.#queue.splice(0)) {
      clearTimeout(entry.timer);
      entry.reject(err);
    }
  }
}

/**
 * Runs `fn(signal)` if the lock is free.
 *
 * @param {MiniRedis} redis
 * @param {string} name
 * @param {(signal: AbortSignal) => Promise<unknown>} fn has to stop when the signal fires
 * @param {{ ttl?: number }} [options]
 * @returns {Promise<boolean>} false if somebody else has the lock
 */
export async function tryLock(redis, name, fn, { ttl = 30_000 } = {}) {
  const key = `lock:${name}`;
  const token = randomUUID();
  const sentAt = performance.now();
  const reply = await redis.command('SET', key, token, 'NX', 'PX', ttl);
  if (reply !== 'OK') return false;

  const left = sentAt + ttl * 0.9 - performance.now();
  try {
    await fn(AbortSignal.timeout(Math.max(1, Math.floor(left))));
    return true;
  } finally {
    await redis
      .command('EVAL', UNLOCK, 1, key, token)
      .catch((err) => console.warn('unlocking %s failed: %s', name, err.message));
  }
}

/** Example: several workers go through the same list of feeds. */
export async function refreshFeeds(redis, feeds, refresh) {
  await Promise.all(
    feeds.map(async (feed) => {
      try {
        const ran = await tryLock(redis, `feed:${feed.id}`, (signal) => refresh(feed, { signal }));
        if (!ran) console.debug('feed %s is being refreshed elsewhere', feed.id);
      } catch (err) {
        console.error('feed %s: %s', feed.id, err.message);
      }
    }),
  );
}
