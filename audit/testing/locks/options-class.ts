import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';

interface Settings {
  retries: number;
  pauseMs: number;
  driftFactor: number;
  nodeTimeoutMs: number;
}

interface Grant {
  readonly resource: string;
  readonly token: string;
  readonly expiration: number;
}

const DELETE = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';
const PROLONG =
  'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end';

/** All settings have defaults; an extension gives a new grant. */
export class Quorum {
  private readonly nodes: Redis[];
  private readonly settings: Settings;

  constructor(nodes: Redis[], settings: Partial<Settings> = {}) {
    this.nodes = nodes;
    this.settings = { retries: 8, pauseMs: 150, driftFactor: 0.01, nodeTimeoutMs: 100, ...settings };
  }

  async acquire(resource: string, ttlMs: number): Promise<Grant> {
    for (let i = 0; i < this.settings.retries; i++) {
      const token = randomBytes(16).toString('hex');
      const expiration = this.endOf(ttlMs);
      const votes = await this.ask(async (node) => (await node.set(resource, token, 'PX', ttlMs, 'NX')) === 'OK');
      if (this.isEnough(votes) && Date.now() < expiration) return { resource, token, expiration };
      await this.release({ resource, token });
      await new Promise((resolve) => setTimeout(resolve, this.settings.pauseMs * (1 + Math.random())));
    }
    throw new Error(`${resource} is locked`);
  }

  async extend(grant: Grant, ttlMs: number): Promise<Grant> {
    const expiration = this.endOf(ttlMs);
    const { resource, token } = grant;
    const votes = await this.ask((node) => this.prolong(node, grant, ttlMs));
    if (this.isEnough(votes) && Date.now() < Math.min(expiration, grant.expiration))
      return { resource, token, expiration };
    // The grant that there is lasts on, so its keys stay.
    throw new Error(`${resource} was not extended`);
  }

  async release({ resource, token }: Pick<Grant, 'resource' | 'token'>): Promise<void> {
    await this.ask(async (node) => (await node.eval(DELETE, 1, resource, token)) === 1);
  }

  protected async prolong(node: Redis, { resource, token }: Grant, ttlMs: number): Promise<boolean> {
    return (await node.eval(PROLONG, 1, resource, token, ttlMs)) === 1;
  }

  private endOf(ttlMs: number): number {
    return Date.now() + ttlMs - Math.round(ttlMs * this.settings.driftFactor) - 2;
  }

  private isEnough(votes: readonly boolean[]): boolean {
    return votes.filter(Boolean).length > this.nodes.length / 2;
  }

  private ask(what: (node: Redis) => Promise<boolean>): Promise<boolean[]> {
    const late = (): Promise<boolean> =>
      new Promise((resolve) => setTimeout(resolve, this.settings.nodeTimeoutMs, false));
    return Promise.all(this.nodes.map((node) => Promise.race([what(node).catch(() => false), late()])));
  }
}
