import crypto from 'node:crypto';
import type { Redis } from 'ioredis';

// A multi-node lock that decides as soon as the outcome is certain: it does not
// wait for the slowest server once a majority has said yes (or can't any more).
// Commands on a connection stay in order, so whatever is still on its way when
// we release is followed by our delete.

const del = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  else
    return 0
  end`;

const extend = `
  if redis.call("GET", KEYS[1]) ~= ARGV[1] then
    return 0
  end
  local left = redis.call("PTTL", KEYS[1])
  if left < tonumber(ARGV[2]) then
    redis.call("PEXPIRE", KEYS[1], ARGV[2])
  end
  return 1`;

export interface Seat {
  remaining(): number;
  isValid(): boolean;
  /** false: not extended, the time left is as it was */
  extend(ttlMs: number): Promise<boolean>;
  release(): Promise<void>;
}

class Quorate {
  private nodes: Redis[];
  private need: number;
  private waitMs: number;

  constructor(nodes: Redis[], waitMs = 3000) {
    this.nodes = [...nodes];
    this.need = Math.floor(this.nodes.length / 2) + 1;
    this.waitMs = waitMs;
  }

  private poll(limitMs: number, yes: unknown, send: (node: Redis) => Promise<unknown>): Promise<boolean> {
    return new Promise((resolve) => {
      let ayes = 0;
      let noes = 0;
      const timer = setTimeout(() => resolve(false), limitMs);
      const decide = (outcome: boolean) => {
        clearTimeout(timer);
        resolve(outcome);
      };
      for (const node of this.nodes) {
        send(node)
          .then((reply) => reply === yes, () => false)
          .then((aye) => {
            if (aye) ayes += 1;
            else noes += 1;
            if (ayes >= this.need) decide(true);
            else if (noes > this.nodes.length - this.need) decide(false);
          });
      }
    });
  }

  /** null when somebody else has it for longer than we care to wait */
  async acquire(resource: string, ttlMs: number): Promise<Seat | null> {
    const name = `quorate:{${resource}}`;
    const ttl = Math.floor(ttlMs);
    const lasts = (ms: number) => ms * 0.99 - 2;
    const stopAt = performance.now() + this.waitMs;

    while (true) {
      const id = crypto.randomUUID();
      const began = performance.now();
      let validTo = began + lasts(ttl);
      const won = await this.poll(ttl / 2, 'OK', (n) => n.set(name, id, 'PX', ttl, 'NX'));

      if (won && performance.now() < validTo) {
        let released = false;
        const remaining = () => (released ? 0 : Math.max(0, validTo - performance.now()));
        return {
          remaining,
          isValid: () => remaining() > 0,
          extend: async (more) => {
            if (remaining() === 0) return false;
            const asked = performance.now();
            const ms = Math.floor(more);
            const ok = await this.poll(ms / 2, 1, (n) => n.eval(extend, 1, name, id, ms));
            if (!ok || released) return false;
            validTo = Math.max(validTo, asked + lasts(ms));
            return remaining() > 0;
          },
          release: async () => {
            if (released) return;
            released = true;
            await this.poll(1000, 1, (n) => n.eval(del, 1, name, id));
          },
        };
      }

      void this.poll(1000, 1, (n) => n.eval(del, 1, name, id));
      if (performance.now() >= stopAt) return null;
      await new Promise((r) => setTimeout(r, 30 + Math.random() * 120));
    }
  }
}

export default function make({ nodes }: { nodes: Redis[] }) {
  return new Quorate(nodes);
}
