import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { MakeLock } from 'lockstep/testing';

interface Options {
  readonly retries: number;
  readonly retryDelay: number;
  readonly retryJitter: number;
  readonly nodeTimeout: number;
  readonly driftFactor: number;
}

const DEFAULTS: Options = { retries: 5, retryDelay: 100, retryJitter: 100, nodeTimeout: 150, driftFactor: 0.01 };

const RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

class Lock {
  private readonly owner: DistributedLock;
  readonly resource: string;
  readonly token: string;
  readonly deadline: number;

  constructor(owner: DistributedLock, resource: string, token: string, deadline: number) {
    this.owner = owner;
    this.resource = resource;
    this.token = token;
    this.deadline = deadline;
  }

  remaining(): number {
    return this.deadline - performance.now();
  }

  release(): Promise<void> {
    return this.owner.free(this.resource, this.token);
  }
}

class DistributedLock {
  private readonly clients: readonly Redis[];
  private readonly options: Options;

  constructor(clients: readonly Redis[], options: Partial<Options> = {}) {
    this.clients = clients;
    this.options = { ...DEFAULTS, ...options };
  }

  get quorum(): number {
    return Math.floor(this.clients.length / 2) + 1;
  }

  async acquire(resource: string, ttl: number): Promise<Lock | null> {
    const { retries, retryDelay, retryJitter } = this.options;
    for (let i = 0; i <= retries; i++) {
      const lock = await this.attempt(resource, ttl);
      if (lock) return lock;
      if (i < retries) await delay(retryDelay + Math.floor(Math.random() * retryJitter));
    }
    return null;
  }

  async free(resource: string, token: string, clients = this.clients): Promise<void> {
    await Promise.allSettled(clients.map((client) => this.limit(client.eval(RELEASE, 1, resource, token))));
  }

  private async attempt(resource: string, ttl: number): Promise<Lock | null> {
    const token = randomBytes(20).toString('hex');
    const started = performance.now();
    const results = await Promise.allSettled(
      this.clients.map((client) => this.limit(client.set(resource, token, 'PX', ttl, 'NX'))),
    );
    const granted = results.filter((result) => result.status === 'fulfilled' && result.value === 'OK').length;
    const drift = Math.ceil(ttl * this.options.driftFactor) + 2;
    const deadline = started + ttl - drift;
    if (granted >= this.quorum && performance.now() < deadline) return new Lock(this, resource, token, deadline);
    const winners = this.clients.filter((_, i) => {
      const result = results[i];
      return result?.status === 'fulfilled' && result.value === 'OK';
    });
    await this.free(resource, token, winners);
    return null;
  }

  private limit<T>(command: Promise<T>): Promise<T> {
    let timer: ReturnType<typeof setTimeout>;
    const timeout = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('Redis node timed out')), this.options.nodeTimeout);
    });
    return Promise.race([command, timeout]).finally(() => clearTimeout(timer));
  }
}

export const make: MakeLock = ({ nodes }) => new DistributedLock(nodes);
