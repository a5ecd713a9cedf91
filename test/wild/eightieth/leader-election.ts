import { EventEmitter } from 'node:events';
import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

const CAMPAIGN = `
local cur = redis.call('GET', KEYS[1])
if cur == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return tonumber(redis.call('GET', KEYS[2]))
end
if cur then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('INCR', KEYS[2])
`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`;

interface Events {
  elected: [term: number];
  deposed: [term: number];
  problem: [err: unknown];
}

export class Election extends EventEmitter<Events> {
  readonly id = randomUUID();
  #term = 0;
  #until = 0;
  #stopped = true;
  #timer?: NodeJS.Timeout;
  #expiry?: NodeJS.Timeout;
  #round: Promise<void> = Promise.resolve();

  constructor(
    private readonly client: RedisClientType,
    private readonly group: string,
    private readonly leaseMs = 12_000,
  ) {
    super();
  }

  get isLeader(): boolean {
    return this.#term > 0 && performance.now() < this.#until;
  }

  /** Fencing number for stores which refuse writes of an older term. */
  get term(): number {
    return this.isLeader ? this.#term : 0;
  }

  start(): void {
    if (!this.#stopped) return;
    this.#stopped = false;
    this.#schedule(0);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#depose();
    await this.#round;
    this.#depose();
    await this.client.eval(RESIGN, { keys: [this.#key('holder')], arguments: [this.id] });
  }

  #key(part: string): string {
    return `election:{${this.group}}:${part}`;
  }

  #schedule(delay: number): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#round = this.#campaign().finally(() => this.#schedule(this.leaseMs / 4));
    }, delay);
  }

  async #campaign(): Promise<void> {
    const sentAt = performance.now();
    try {
      const term = Number(
        await this.client.eval(CAMPAIGN, {
          keys: [this.#key('holder'), this.#key('term')],
          arguments: [this.id, String(this.leaseMs)],
        }),
      );
      const until = sentAt + this.leaseMs * 0.85;
      if (this.#stopped) return;
      if (term === 0 || performance.now() >= until) return this.#depose();

      if (this.#term !== 0 && this.#term !== term) this.#depose();
      const fresh = this.#term === 0;
      this.#term = term;
      this.#until = until;
      clearTimeout(this.#expiry);
      this.#expiry = setTimeout(() => this.#depose(), until - performance.now());
      if (fresh) this.emit('elected', term);
    } catch (err) {
      this.emit('problem', err);
    }
  }

  #depose(): void {
    clearTimeout(this.#expiry);
    if (this.#term === 0) return;
    const old = this.#term;
    this.#term = 0;
    this.#until = 0;
    this.emit('deposed', old);
  }
}
