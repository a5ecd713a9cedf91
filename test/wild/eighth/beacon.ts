import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { Redis } from 'ioredis';
import type { MakeLock } from 'lockstep/testing';

const LUA_DEL = `if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;
const LUA_EXTEND = `if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1`;

const effective = (ttl: number) => ttl - Math.round(ttl * 0.01) - 2;

class LockHandle extends EventEmitter {
  private readonly service: LockService;
  private readonly key: string;
  private readonly id: string;
  private deadline: number;
  private released = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(service: LockService, key: string, id: string, deadline: number) {
    super();
    this.service = service;
    this.key = key;
    this.id = id;
    this.deadline = deadline;
    this.watch();
  }

  get isAcquired(): boolean {
    return !this.released && performance.now() < this.deadline;
  }

  async extend(ttl: number): Promise<boolean> {
    if (!this.isAcquired) return false;
    const start = performance.now();
    const votes = await this.service.poll((node) => node.eval(LUA_EXTEND, 1, this.key, this.id, ttl));
    if (!this.isAcquired || votes === 0) return false;
    this.deadline = start + effective(ttl);
    this.watch();
    return true;
  }

  async release(): Promise<void> {
    this.released = true;
    clearTimeout(this.timer);
    await this.service.poll((node) => node.eval(LUA_DEL, 1, this.key, this.id));
  }

  private watch(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.emit('lost', this.key), Math.max(0, this.deadline - performance.now()));
  }
}

class LockService {
  readonly quorum: number;
  private readonly nodes: readonly Redis[];

  constructor(nodes: readonly Redis[]) {
    this.nodes = nodes;
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async acquire(key: string, ttl: number): Promise<LockHandle | null> {
    let tries = 0;
    do {
      const id = randomBytes(12).toString('hex');
      const start = performance.now();
      const votes = await this.poll((node) => node.set(key, id, 'PX', ttl, 'NX'));
      const deadline = start + effective(ttl);
      if (votes >= this.quorum && performance.now() < deadline) return new LockHandle(this, key, id, deadline);
      await this.poll((node) => node.eval(LUA_DEL, 1, key, id));
      await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 200));
    } while (++tries < 5);
    return null;
  }

  poll(command: (node: Redis) => Promise<unknown>): Promise<number> {
    return new Promise((resolve) => {
      let open = this.nodes.length;
      let votes = 0;
      for (const node of this.nodes) {
        let heard = false;
        const hear = (reply: unknown) => {
          if (heard) return;
          heard = true;
          clearTimeout(timer);
          if (reply === 'OK' || reply === 1) votes += 1;
          open -= 1;
          if (open === 0) resolve(votes);
        };
        const timer = setTimeout(hear, 150);
        command(node).then(hear, () => hear(undefined));
      }
    });
  }
}

export const make: MakeLock = ({ nodes }) => new LockService(nodes);
