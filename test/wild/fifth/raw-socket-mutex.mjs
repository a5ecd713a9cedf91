import net from 'node:net';
import { randomUUID } from 'node:crypto';

// Conveyor controller: node without npm, one socket to redis for the whole process.

class RedisSocket {
  #socket;
  #pending = [];
  #rest = '';
  #timeoutMs;

  constructor({ host, port, timeoutMs }) {
    this.#timeoutMs = timeoutMs;
    this.#socket = net.connect({ host, port, noDelay: true });
    this.#socket.setEncoding('utf8');
    this.#socket.on('data', (text) => this.#read(text));
    this.#socket.on('error', (err) => this.#failAll(err));
    this.#socket.on('close', () => this.#failAll(new Error('redis connection closed')));
  }

  command(...args) {
    return new Promise((resolve, reject) => {
      const entry = { resolve, reject, timer: undefined };
      entry.timer = setTimeout(() => {
        const i = this.#pending.indexOf(entry);
        if (i !== -1) this.#pending.splice(i, 1);
        reject(new Error(`${args[0]} timed out`));
      }, this.#timeoutMs);
      this.#pending.push(entry);

      const parts = args.map((a) => String(a));
      this.#socket.write(
        `*${parts.length}\r\n${parts.map((p) => `$${Buffer.byteLength(p)}\r\n${p}\r\n`).join('')}`,
      );
    });
  }

  // our replies are single lines: +OK  $-1  :n  -ERR
  #read(text) {
    this.#rest += text;
    let end;
    while ((end = this.#rest.indexOf('\r\n')) !== -1) {
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + 2);
      const entry = this.#pending.shift();
      if (!entry) continue;
      clearTimeout(entry.timer);
      if (line[0] === '-') entry.reject(new Error(line.slice(1)));
      else if (line === '$-1') entry.resolve(null);
      else entry.resolve(line[0] === ':' ? Number(line.slice(1)) : line.slice(1));
    }
  }

  #failAll(err) {
    for (const entry of this.#pending.splice(0)) {
      clearTimeout(entry.timer);
      entry.reject(err);
    }
  }

  end() {
    this.#socket.end();
  }
}

const UNLOCK =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

export class BeltMutex {
  #redis;
  #ttlMs;

  constructor(env = process.env, ttlMs = 15_000) {
    this.#redis = new RedisSocket({
      host: env.REDIS_HOST ?? '127.0.0.1',
      port: Number(env.REDIS_PORT ?? 6379),
      timeoutMs: 800,
    });
    this.#ttlMs = ttlMs;
  }

  /** @returns true if fn was run. fn must obey the signal. */
  async exclusively(belt, fn) {
    const key = `belt:${belt}`;
    const token = randomUUID();
    const asked = performance.now();
    try {
      const reply = await this.#redis.command('SET', key, token, 'NX', 'PX', this.#ttlMs);
      if (reply !== 'OK') return false;
      await fn(AbortSignal.timeout(Math.floor(asked + this.#ttlMs - 2_000 - performance.now())));
      return true;
    } finally {
      await this.#redis
        .command('EVAL', UNLOCK, 1, key, token)
        .catch((err) => console.warn(`belt ${belt}: unlock: ${err.message}`));
    }
  }
}

export async function moveParcel(mutex, plc, belt, parcel) {
  return mutex.exclusively(belt, async (signal) => {
    await plc.send(belt, { op: 'load', parcel }, { signal, timeoutMs: 1_000 });
    signal.throwIfAborted();
    await plc.send(belt, { op: 'advance', steps: 4 }, { signal, timeoutMs: 1_000 });
  });
}
