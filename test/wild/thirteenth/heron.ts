import { randomUUID } from 'node:crypto';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const DEL = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`;
const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end`;

function bounded<T>(command: Promise<T>, ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('node is silent')), ms);
    command.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

export const make: MakeLock = ({ nodes }) => {
  const quorum = Math.floor(nodes.length / 2) + 1;
  const endOf = (began: number, ttl: number) => began + ttl - (ttl / 100 + 2);

  async function count(commands: Promise<unknown>[], wanted: unknown, ms: number): Promise<number> {
    const settled = await Promise.allSettled(commands.map((command) => bounded(command, ms)));
    return settled.filter((one) => one.status === 'fulfilled' && one.value === wanted).length;
  }

  async function wipe(key: string, token: string, ms: number): Promise<void> {
    await count(nodes.map((node) => node.eval(DEL, 1, key, token)), 1, ms);
  }

  async function claim(key: string, ttl: number, patience: number) {
    for (let attempt = 1; attempt <= 6; attempt++) {
      const token = randomUUID();
      const until = endOf(performance.now(), ttl);
      const votes = await count(nodes.map((node) => node.set(key, token, 'PX', ttl, 'NX')), 'OK', patience);
      if (votes >= quorum && performance.now() < until) return { token, until };
      await wipe(key, token, patience);
      await new Promise((resolve) => setTimeout(resolve, 30 + Math.random() * 30 * 2 ** attempt));
    }
    throw new Error(`${key} is locked`);
  }

  return {
    async using(key, ttl, routine) {
      const patience = Math.max(15, ttl / 6);
      const claimed = await claim(key, ttl, patience);
      const { token } = claimed;
      let { until } = claimed;
      const lost = new AbortController();
      let over = false;
      let expiry: NodeJS.Timeout | undefined;
      let renewal: NodeJS.Timeout | undefined;

      const finish = () => {
        over = true;
        clearTimeout(expiry);
        clearTimeout(renewal);
      };
      const lose = () => {
        if (over) return;
        finish();
        lost.abort(new Error(`lock on ${key} is lost`));
      };
      const watch = () => {
        clearTimeout(expiry);
        expiry = setTimeout(lose, Math.max(0, until - performance.now()));
        renewal = setTimeout(() => void renew(), ttl / 3);
      };
      const renew = async () => {
        const began = performance.now();
        if (began >= until) return lose();
        const votes = await count(nodes.map((node) => node.eval(RENEW, 1, key, token, ttl)), 1, patience);
        if (over) return;
        if (votes >= quorum) until = endOf(began, ttl);
        // Without a majority there is another try, until the expiry timer says stop.
        if (performance.now() >= until) return lose();
        watch();
      };

      watch();
      try {
        await routine(lost.signal);
      } finally {
        finish();
        await wipe(key, token, patience);
      }
    },
  };
};
