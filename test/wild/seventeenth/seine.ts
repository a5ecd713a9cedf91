import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

interface Tally {
  yes: number;
  no: number;
}

async function tally(nodes: Redis[], ms: number, ask: (node: Redis) => Promise<boolean>): Promise<Tally> {
  const result: Tally = { yes: 0, no: 0 };
  await Promise.all(
    nodes.map(async (node) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const silence = new Promise<null>((resolve) => {
        timer = setTimeout(resolve, ms, null);
      });
      const answer = await Promise.race([ask(node).catch(() => null), silence]);
      clearTimeout(timer);
      if (answer === true) result.yes += 1;
      else if (answer === false) result.no += 1;
    }),
  );
  return result;
}

class Watchdog {
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private stopped = false;

  constructor(
    private readonly renew: () => Promise<'renewed' | 'lost' | 'unknown'>,
    private readonly everyMs: number,
  ) {
    this.schedule(everyMs);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  private schedule(ms: number): void {
    this.timer = setTimeout(() => void this.tick(), ms);
  }

  private async tick(): Promise<void> {
    const outcome = await this.renew();
    if (this.stopped) return;
    if (outcome === 'lost') this.controller.abort(new Error('the lock has another holder'));
    // A hiccup of the network is no reason to stop the work; the next renewal comes soon.
    else this.schedule(outcome === 'renewed' ? this.everyMs : this.everyMs / 4);
  }
}

export const make: MakeLock = ({ nodes }) => {
  const quorum = Math.floor(nodes.length / 2) + 1;

  async function release(key: string, token: string, ttl: number): Promise<void> {
    const told = new Set<Redis>();
    const tell = async (node: Redis) => {
      if (!told.has(node)) await node.eval(RELEASE, 1, key, token);
      told.add(node);
      return true;
    };
    await tally(nodes, ttl / 6, tell);
    if (told.size < nodes.length) await tally(nodes, ttl / 6, tell);
  }

  async function acquire(key: string, ttl: number): Promise<string> {
    const patience = performance.now() + 3 * ttl;
    while (performance.now() < patience) {
      const token = randomUUID();
      let over = false;
      const start = performance.now();
      const { yes } = await tally(nodes, ttl / 5, async (node) => {
        const ok = (await node.set(key, token, 'PX', ttl, 'NX')) === 'OK';
        if (ok && over) node.eval(RELEASE, 1, key, token).catch(() => {});
        return ok;
      });
      // There has to be enough left for the first renewal.
      if (yes >= quorum && performance.now() < start + ttl / 2) return token;
      over = true;
      await release(key, token, ttl);
      await sleep(ttl * (0.03 + Math.random() * 0.1));
    }
    throw new Error(`${key} is locked`);
  }

  return {
    async using(resource, ttlMs, routine) {
      const key = `work:${resource}`;
      const token = await acquire(key, ttlMs);
      const watchdog = new Watchdog(async () => {
        const { yes, no } = await tally(
          nodes,
          ttlMs / 6,
          async (node) => (await node.eval(RENEW, 1, key, token, ttlMs)) === 1,
        );
        if (yes >= quorum) return 'renewed';
        return no >= quorum ? 'lost' : 'unknown';
      }, ttlMs / 4);
      try {
        await routine(watchdog.signal);
      } finally {
        watchdog.stop();
        await release(key, token, ttlMs);
      }
    },
  };
};
