import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/* Tenure: extendable locks on a set of independent Redis instances. */

const scripts = {
  end: `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`,
  renew: `
    if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
    if redis.call("pttl", KEYS[1]) < tonumber(ARGV[2]) then
      redis.call("pexpire", KEYS[1], ARGV[2])
    end
    return 1`,
};

export class TenureError extends Error {}

export class Tenure {
  private ended = false;
  private readonly board: TenureBoard;
  readonly key: string;
  private readonly token: string;
  private until: number;

  constructor(board: TenureBoard, key: string, token: string, until: number) {
    this.board = board;
    this.key = key;
    this.token = token;
    this.until = until;
  }

  get active(): boolean {
    return this.remaining() > 0;
  }

  isValid(): boolean {
    return this.active;
  }

  remaining(): number {
    return this.ended ? 0 : Math.max(0, this.until - performance.now());
  }

  /** Rejects with TenureError when too few nodes agreed. */
  async extend(ttlMs: number): Promise<this> {
    if (!this.active) throw new TenureError(`${this.key}: nothing left to extend`);

    // counted from before we send, the replies may take their time
    this.until = Math.max(this.until, performance.now() + this.board.validFor(ttlMs));

    const renewed = await this.board.tally(ttlMs / 3, 1, (node) =>
      node.eval(scripts.renew, 1, this.key, this.token, ttlMs),
    );
    if (renewed < this.board.quorum) {
      throw new TenureError(`${this.key}: only ${renewed} of ${this.board.size} nodes extended`);
    }
    if (!this.active) throw new TenureError(`${this.key}: extended too late`);
    return this;
  }

  async release(): Promise<void> {
    if (this.ended) return;
    this.ended = true;
    await this.board.tally(1000, 1, (node) => node.eval(scripts.end, 1, this.key, this.token));
  }
}

export class TenureBoard {
  private readonly nodes: Redis[];
  readonly quorum: number;

  constructor(nodes: Redis[]) {
    this.nodes = nodes;
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  get size() {
    return this.nodes.length;
  }

  validFor(ttlMs: number): number {
    return ttlMs - ttlMs * 0.01 - 2;
  }

  async acquire(resource: string, ttlMs: number): Promise<Tenure> {
    const key = `tenure:${resource}`;
    for (let left = 8; left > 0; left--) {
      const token = randomBytes(16).toString('base64');
      const t0 = performance.now();
      const votes = await this.tally(ttlMs / 3, 'OK', (node) => node.set(key, token, 'PX', ttlMs, 'NX'));
      const until = t0 + this.validFor(ttlMs);
      if (votes >= this.quorum && performance.now() < until) return new Tenure(this, key, token, until);
      await this.tally(ttlMs / 3, 1, (node) => node.eval(scripts.end, 1, key, token));
      await pause(80 + Math.random() * 120);
    }
    throw new TenureError(`${key}: held by someone else`);
  }

  async tally(ms: number, expected: unknown, command: (node: Redis) => Promise<unknown>): Promise<number> {
    const yes = await Promise.all(
      this.nodes.map(async (node) => {
        const stop = new AbortController();
        const slow = pause(Math.min(ms, 250), undefined, { signal: stop.signal }).catch(() => undefined);
        try {
          return (await Promise.race([command(node), slow])) === expected;
        } catch {
          return false;
        } finally {
          stop.abort();
        }
      }),
    );
    return yes.filter(Boolean).length;
  }
}

export const make = ({ nodes }: { nodes: Redis[] }) => new TenureBoard(nodes);
