import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';

export type Room = Readonly<{
  resource: string;
  /** ms you may stay, 0 when it is over */
  remaining: () => number;
  isValid: () => boolean;
  extend: (ttlMs: number) => Promise<void>;
  release: () => Promise<void>;
}>;

export class NoRoom extends Error {
  name = 'NoRoom';
}

const CHECK_OUT = `
local guest = redis.call('get', KEYS[1])
if guest == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const STAY_ON = `
local guest = redis.call('get', KEYS[1])
if guest ~= ARGV[1] then
  return 0
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1`;

export class Lodger {
  private readonly nodes: Redis[];
  private readonly quorum: number;
  private readonly timeoutMs = 200;

  constructor(nodes: Redis[]) {
    this.nodes = nodes;
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async acquire(resource: string, ttlMs: number, patienceMs = 3000): Promise<Room> {
    const key = `lodger:${resource}`;
    const until = performance.now() + patienceMs;
    for (;;) {
      const guest = randomBytes(16).toString('hex');
      const start = performance.now();
      const rooms = await this.ask('OK', ttlMs, (n) => n.set(key, guest, 'PX', ttlMs, 'NX'));
      const deadline = start + this.effective(ttlMs);
      if (rooms >= this.quorum && performance.now() < deadline) return this.room(resource, key, guest, deadline);
      await this.ask(1, ttlMs, (n) => n.eval(CHECK_OUT, 1, key, guest));
      if (performance.now() > until) throw new NoRoom(resource);
      await new Promise((r) => setTimeout(r, 40 + Math.random() * 120));
    }
  }

  private room(resource: string, key: string, guest: string, deadline: number): Room {
    let left = false;
    const remaining = () => (left ? 0 : Math.max(0, deadline - performance.now()));
    return {
      resource,
      remaining,
      isValid: () => remaining() > 0,
      extend: async (ttlMs) => {
        if (remaining() === 0) throw new NoRoom(`${resource}: already over`);
        const agreed = await this.ask(1, ttlMs, (n) => n.eval(STAY_ON, 1, key, guest, ttlMs));
        if (agreed < this.quorum) throw new NoRoom(`${resource}: could not stay on`);
        if (remaining() === 0) throw new NoRoom(`${resource}: answer came too late`);
        deadline += this.effective(ttlMs);
      },
      release: async () => {
        if (left) return;
        left = true;
        await this.ask(1, 3000, (n) => n.eval(CHECK_OUT, 1, key, guest));
      },
    };
  }

  private effective(ttlMs: number) {
    return ttlMs - Math.ceil(ttlMs * 0.01) - 2;
  }

  private async ask(expected: unknown, ttlMs: number, command: (node: Redis) => Promise<unknown>): Promise<number> {
    const limit = Math.min(this.timeoutMs, ttlMs / 3);
    const outcomes = await Promise.allSettled(
      this.nodes.map((node) => {
        let timer: NodeJS.Timeout;
        const timeout = new Promise<never>((_, reject) => {
          timer = setTimeout(reject, limit, new Error('timeout'));
        });
        return Promise.race([command(node), timeout]).finally(() => clearTimeout(timer));
      }),
    );
    return outcomes.filter((o) => o.status === 'fulfilled' && o.value === expected).length;
  }
}

export default Lodger;
export const make = ({ nodes }: { nodes: Redis[] }) => new Lodger(nodes);
