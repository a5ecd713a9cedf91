import { randomUUID } from 'node:crypto';
import Redis from 'iovalkey';

const TTL_MS = 15_000;
const MARGIN_MS = 1_000;

const KEEP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const DROP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

export class CrmImport {
  constructor({ url = process.env.REDIS_URL, client } = {}) {
    this.redis = client ?? new Redis(url ?? 'redis://localhost:6379', { lazyConnect: true });
  }

  #watch(key, token, sentAt) {
    const abort = new AbortController();
    let until = sentAt + TTL_MS - MARGIN_MS;
    let stopped = false;

    const watchdog = setInterval(async () => {
      const askedAt = performance.now();
      try {
        const kept = await this.redis.eval(KEEP, 1, key, token, TTL_MS);
        if (kept === 1) until = askedAt + TTL_MS - MARGIN_MS;
        else if (!stopped) abort.abort(new Error('import lock lost'));
      } catch (err) {
        console.warn('import lock not extended', err.message);
      }
    }, TTL_MS / 3);
    const checker = setInterval(() => {
      if (performance.now() >= until) abort.abort(new Error('import lock expired'));
    }, 200);

    return {
      signal: abort.signal,
      stop() {
        stopped = true;
        clearInterval(watchdog);
        clearInterval(checker);
      },
    };
  }

  async run(account, importAll) {
    const key = `crm:import:${account}`;
    const token = randomUUID();
    const sentAt = performance.now();
    if ((await this.redis.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') {
      return { account, status: 'running elsewhere' };
    }
    if (performance.now() >= sentAt + TTL_MS - MARGIN_MS) {
      return { account, status: 'too slow' };
    }

    const watch = this.#watch(key, token, sentAt);
    const contacts = await importAll(account, watch.signal);
    watch.signal.throwIfAborted();
    watch.stop();
    await this.redis.eval(DROP, 1, key, token);
    return { account, status: 'done', contacts };
  }
}

export function normalisePhone(raw) {
  const digits = raw.replace(/[^\d+]/g, '');
  return digits.startsWith('00') ? `+${digits.slice(2)}` : digits;
}
