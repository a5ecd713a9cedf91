/**
 * rw-lease: many readers or one writer, on one Redis, for node-redis 4 and 5.
 *
 *   const lock = new RwLease(client, 'price-list', { lease: 8000 });
 *   await lock.read(async ({ signal }) => exportCsv({ signal }));
 *   await lock.write(async ({ signal, extend }) => {
 *     for (const batch of batches) {
 *       await extend();                     // throws LeaseOver if it is gone
 *       await save(batch, { signal });
 *     }
 *   });
 *
 * A lease is not renewed behind your back. It lasts `lease` ms from the last extend();
 * a bit before that, `signal` is aborted, and what you do must stop then. Readers come
 * first: a writer waits until there is a moment without readers.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

// KEYS[1] writer (string), KEYS[2] readers (sorted set: id -> end of lease by the clock of Redis)
// ARGV[1] id, ARGV[2] lease in ms
const head = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local lease = tonumber(ARGV[2])
local function note_reader()
  redis.call('ZADD', KEYS[2], now + lease, ARGV[1])
  if redis.call('PTTL', KEYS[2]) < lease then redis.call('PEXPIRE', KEYS[2], lease + 1000) end
  return 1
end
`;

const scripts = {
  read: {
    take: `${head}
      if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
      redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
      return note_reader()`,
    extend: `${head}
      local over = redis.call('ZSCORE', KEYS[2], ARGV[1])
      if not over or tonumber(over) <= now then return 0 end
      return note_reader()`,
    drop: `return redis.call('ZREM', KEYS[2], ARGV[1])`,
  },
  write: {
    take: `${head}
      redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
      if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end
      if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', lease) then return 1 end
      return 0`,
    extend: `
      if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
      return redis.call('PEXPIRE', KEYS[1], ARGV[2])`,
    drop: `
      if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
      return redis.call('DEL', KEYS[1])`,
  },
};

export class LeaseOver extends Error {}
export class LeaseRefused extends Error {}

export class RwLease {
  #client;
  #keys;

  constructor(client, name, { lease = 8000, patience = 10_000 } = {}) {
    this.#client = client;
    this.#keys = [`rw:{${name}}:w`, `rw:{${name}}:r`];
    this.name = name;
    this.lease = Math.round(lease);
    this.patience = patience;
  }

  read(fn) {
    return this.#with(scripts.read, fn);
  }

  write(fn) {
    return this.#with(scripts.write, fn);
  }

  #ask(script, id) {
    return this.#client.eval(script, { keys: this.#keys, arguments: [id, String(this.lease)] });
  }

  async #with({ take, extend, drop }, fn) {
    const id = randomUUID();
    const gone = new AbortController();
    let alarm;
    const setAlarm = (sentAt) => {
      clearTimeout(alarm);
      const rest = sentAt + this.lease * 0.9 - performance.now();
      const ring = () => gone.abort(new LeaseOver(`lease on ${this.name} is over`));
      if (rest <= 0) ring();
      else alarm = setTimeout(ring, rest);
    };

    try {
      const until = performance.now() + this.patience;
      let sentAt = performance.now();
      while (Number(await this.#ask(take, id)) !== 1) {
        if (performance.now() > until) throw new LeaseRefused(`${this.name} is busy`);
        await sleep(30 + Math.random() * 90);
        sentAt = performance.now();
      }
      setAlarm(sentAt);
      gone.signal.throwIfAborted();

      return await fn({
        signal: gone.signal,
        extend: async () => {
          gone.signal.throwIfAborted();
          const sent = performance.now();
          if (Number(await this.#ask(extend, id)) !== 1) {
            gone.abort(new LeaseOver(`lease on ${this.name} is over`));
          }
          gone.signal.throwIfAborted();
          setAlarm(sent);
          gone.signal.throwIfAborted();
        },
      });
    } finally {
      clearTimeout(alarm);
      // also after an error while taking: it may have arrived
      await this.#ask(drop, id).catch(() => {});
    }
  }
}
