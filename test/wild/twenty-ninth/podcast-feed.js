// Adds an episode to a show's feed.xml. Runs on the ingest boxes, which have node and
// nothing else, hence the tiny Redis client.
import net from 'node:net';
import { randomUUID } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

class RedisError extends Error {}

export class MiniRedis {
  #buf = Buffer.alloc(0);
  #waiting = [];

  constructor(host = process.env.REDIS_HOST ?? '127.0.0.1', port = Number(process.env.REDIS_PORT ?? 6379)) {
    this.socket = net.connect({ host, port });
    this.socket.on('data', (chunk) => {
      this.#buf = Buffer.concat([this.#buf, chunk]);
      this.#drain();
    });
    const fail = (err) => {
      for (const w of this.#waiting.splice(0)) w.reject(err ?? new Error('connection closed'));
    };
    this.socket.on('error', fail);
    this.socket.on('close', () => fail());
  }

  command(...args) {
    const parts = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`);
    return new Promise((resolve, reject) => {
      if (this.socket.destroyed) return reject(new Error('connection closed'));
      this.#waiting.push({ resolve, reject });
      this.socket.write(`*${args.length}\r\n${parts.join('')}`);
    });
  }

  #drain() {
    for (;;) {
      const eol = this.#buf.indexOf('\r\n');
      if (eol < 0) return;
      const type = String.fromCharCode(this.#buf[0]);
      const line = this.#buf.toString('utf8', 1, eol);
      let end = eol + 2;
      let value = line;
      if (type === ':') value = Number(line);
      if (type === '$') {
        const len = Number(line);
        if (len >= 0) {
          if (this.#buf.length < end + len + 2) return;
          value = this.#buf.toString('utf8', end, end + len);
          end += len + 2;
        } else {
          value = null;
        }
      }
      this.#buf = this.#buf.subarray(end);
      const waiter = this.#waiting.shift();
      if (type === '-') waiter?.reject(new RedisError(line));
      else waiter?.resolve(value);
    }
  }

  end() {
    this.socket.end();
  }
}

const UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

async function lockFeed(redis, show, { ttlMs = 30_000, attempts = 40 } = {}) {
  const key = `feed-lock:${show}`;
  const token = randomUUID();
  for (let i = 1; ; i++) {
    try {
      await redis.command('SET', key, token, 'NX', 'PX', ttlMs);
      return { key, token };
    } catch (err) {
      if (!(err instanceof RedisError) || i >= attempts) throw err;
      console.warn(`feed ${show}: not locked (${err.message}), attempt ${i}`);
      await sleep(250);
    }
  }
}

export async function addEpisode(redis, show, episode, dir = process.env.FEED_DIR ?? './feeds') {
  const lock = await lockFeed(redis, show);
  try {
    const file = `${dir}/${show}.xml`;
    const feed = await readFile(file, 'utf8');
    if (feed.includes(`<guid>${episode.guid}</guid>`)) return false;

    const item = `<item><guid>${episode.guid}</guid><title>${episode.title}</title>` +
      `<enclosure url="${episode.url}" type="audio/mpeg" length="${episode.bytes}"/></item>`;
    const tmp = `${file}.${lock.token}`;
    await writeFile(tmp, feed.replace('</channel>', () => `${item}\n</channel>`));
    await rename(tmp, file);
    return true;
  } finally {
    await redis.command('EVAL', UNLOCK, 1, lock.key, lock.token).catch((err) => {
      console.warn(`feed ${show}: unlock failed: ${err.message}`);
    });
  }
}
