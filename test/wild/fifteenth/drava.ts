import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const DELETE_OWN = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const PROLONG_OWN = `
  if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
  if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
  return 1`;

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const endOf = (startedAt: number, ttlMs: number) => Math.floor(startedAt + ttlMs - ttlMs * 0.01 - 2);

async function count(limitMs: number, answers: Promise<boolean>[]): Promise<number> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, limitMs, false);
  });
  const safe = answers.map((answer) => answer.catch(() => false));
  const votes = await Promise.all(safe.map((answer) => Promise.race([answer, limit])));
  clearTimeout(timer);
  return votes.filter((vote) => vote).length;
}

export const make: MakeLock = ({ nodes }) => {
  const majority = (nodes.length >> 1) + 1;
  const everywhere = (ms: number, ask: (node: Redis) => Promise<boolean>) => count(ms, nodes.map(ask));

  const set = (key: string, token: string, ttlMs: number) =>
    everywhere(ttlMs / 6, (node) => node.set(key, token, 'PX', ttlMs, 'NX').then((reply) => reply === 'OK'));
  const prolong = (key: string, token: string, ttlMs: number) =>
    everywhere(ttlMs / 6, (node) => node.eval(PROLONG_OWN, 1, key, token, ttlMs).then((reply) => reply === 1));
  const remove = (key: string, token: string, ms: number) =>
    everywhere(ms, (node) => node.eval(DELETE_OWN, 1, key, token).then((reply) => reply === 1));

  async function enter(key: string, ttlMs: number): Promise<{ token: string; until: number } | null> {
    for (let attempt = 0; attempt < 25; attempt += 1) {
      const token = randomUUID();
      const until = endOf(Date.now(), ttlMs);
      if ((await set(key, token, ttlMs)) >= majority && Date.now() < until) return { token, until };
      await remove(key, token, 300);
      await wait(50 + Math.random() * 150);
    }
    return null;
  }

  /** Keeps a lock until `stop` is called. Aborts `signal` at the instant at which it is no longer sure. */
  function keep(key: string, token: string, firstEnd: number, ttlMs: number) {
    const lost = new AbortController();
    let until = firstEnd;
    let stopped = false;
    let next: NodeJS.Timeout | undefined;
    let end: NodeJS.Timeout | undefined;

    const stop = () => {
      stopped = true;
      clearTimeout(next);
      clearTimeout(end);
    };
    const lose = () => {
      stop();
      lost.abort(new Error(`lost the lock ${key}`));
    };
    const watch = () => {
      clearTimeout(end);
      end = setTimeout(lose, Math.max(0, until - Date.now()));
    };
    const beat = async () => {
      const startedAt = Date.now();
      if (startedAt >= until) return lose();
      const votes = await prolong(key, token, ttlMs);
      if (stopped) return;
      if (Date.now() >= until) return lose();
      if (votes >= majority) {
        until = Math.max(until, endOf(startedAt, ttlMs));
        watch();
      }
      next = setTimeout(beat, votes >= majority ? ttlMs / 3 : ttlMs / 20);
    };

    watch();
    next = setTimeout(beat, ttlMs / 3);
    return { signal: lost.signal, stop };
  }

  return {
    async using(resource, ttlMs, routine) {
      const entered = await enter(resource, ttlMs);
      if (entered === null) throw new Error(`${resource} is locked`);
      const { signal, stop } = keep(resource, entered.token, entered.until, ttlMs);
      try {
        await routine(signal);
      } finally {
        stop();
        await remove(resource, entered.token, 300);
      }
    },
  };
};
