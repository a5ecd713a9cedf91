import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const DROP = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const PROLONG = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1`;

const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** Share of a TTL that clocks may disagree about, and a little for their granularity. */
const allowance = (ttlMs: number): number => Math.ceil(ttlMs * 0.01) + 2;

/** Resolves as soon as the outcome is decided. */
function decide(asked: Promise<boolean>[], needed: number, withinMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    let yes = 0;
    let no = 0;
    const timer = setTimeout(() => resolve(false), withinMs);
    const count = (vote: boolean): void => {
      if (vote) yes += 1;
      else no += 1;
      if (yes < needed && no <= asked.length - needed) return;
      clearTimeout(timer);
      resolve(yes >= needed);
    };
    for (const one of asked) one.then(count, () => count(false));
  });
}

class Lease {
  private readonly token = randomUUID();
  private endsAt = Number.NEGATIVE_INFINITY;
  private closed = false;

  constructor(
    private readonly nodes: readonly Redis[],
    private readonly key: string,
    private readonly ttlMs: number,
  ) {}

  private get quorum(): number {
    return Math.floor(this.nodes.length / 2) + 1;
  }

  async take(): Promise<boolean> {
    const start = performance.now();
    const won = await decide(
      this.nodes.map((node) => this.ask(node)),
      this.quorum,
      this.ttlMs / 2,
    );
    const endsAt = start + this.ttlMs - allowance(this.ttlMs);
    if (!won || performance.now() >= endsAt) {
      void this.release();
      return false;
    }
    this.endsAt = endsAt;
    return true;
  }

  private async ask(node: Redis): Promise<boolean> {
    const reply = await node.set(this.key, this.token, 'PX', this.ttlMs, 'NX');
    // Answers that arrive after we left: nobody would remove that key.
    if (reply === 'OK' && this.closed) void this.drop(node);
    return reply === 'OK';
  }

  remaining(): number {
    return this.closed ? 0 : Math.max(0, this.endsAt - performance.now());
  }

  async extend(ttlMs: number): Promise<this | false> {
    if (this.remaining() <= 0) return false;
    const start = performance.now();
    const kept = await decide(
      this.nodes.map(async (node) => (await node.eval(PROLONG, 1, this.key, this.token, ttlMs)) === 1),
      this.quorum,
      ttlMs / 2,
    );
    if (!kept || this.remaining() <= 0) return false;
    this.endsAt = Math.max(this.endsAt, start + ttlMs - allowance(ttlMs));
    return this;
  }

  async release(): Promise<void> {
    this.closed = true;
    await Promise.all(this.nodes.map((node) => this.drop(node)));
  }

  private async drop(node: Redis): Promise<void> {
    for (let tries = 0; tries < 3; tries += 1) {
      const done = node.eval(DROP, 1, this.key, this.token).then(
        () => true,
        () => false,
      );
      let timer: ReturnType<typeof setTimeout> | undefined;
      const late = new Promise<boolean>((resolve) => {
        timer = setTimeout(() => resolve(false), this.ttlMs / 5);
      });
      const dropped = await Promise.race([done, late]);
      clearTimeout(timer);
      if (dropped) return;
      await sleep(this.ttlMs / 50);
    }
  }
}

class LeaseService {
  constructor(private readonly nodes: readonly Redis[]) {}

  async acquire(resource: string, ttlMs: number): Promise<Lease | null> {
    const giveUpAt = performance.now() + 3 * ttlMs;
    for (;;) {
      const lease = new Lease(this.nodes, resource, ttlMs);
      if (await lease.take()) return lease;
      const pause = ttlMs * (0.03 + Math.random() * 0.09);
      if (performance.now() + pause > giveUpAt) return null;
      await sleep(pause);
    }
  }
}

export const make: MakeLock = ({ nodes }) => new LeaseService(nodes);
