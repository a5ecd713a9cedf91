import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const DEL_IF_EQUAL = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

interface Grant {
  resource: string;
  token: string;
  until: number;
}

function guarded(command: Promise<unknown>, ms: number): Promise<unknown> {
  let timer: NodeJS.Timeout;
  return Promise.race([
    command.catch(() => null),
    new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), ms);
    }),
  ]).finally(() => clearTimeout(timer));
}

class LockClient {
  // Requests for the same resource that are under way, to spare the nodes a storm of SETs.
  private readonly pending = new Map<string, Promise<Grant | null>>();
  private readonly quorum: number;

  constructor(private readonly nodes: Redis[]) {
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async acquire(resource: string, ttl: number): Promise<LockHandle | null> {
    const id = `${resource}:${ttl}`;
    let request = this.pending.get(id);
    if (request === undefined) {
      request = this.request(resource, ttl).finally(() => this.pending.delete(id));
      this.pending.set(id, request);
    }
    const grant = await request;
    return grant && new LockHandle(this, grant);
  }

  private async request(resource: string, ttl: number): Promise<Grant | null> {
    const ms = Math.max(20, ttl / 5);
    for (let attempt = 0; attempt < 5; attempt++) {
      const token = randomUUID();
      const until = performance.now() + ttl - (ttl * 0.01 + 2);
      const answers = await Promise.all(
        this.nodes.map((node) => guarded(node.set(resource, token, 'PX', ttl, 'NX'), ms)),
      );
      const votes = answers.filter((answer) => answer === 'OK').length;
      if (votes >= this.quorum && performance.now() < until) return { resource, token, until };
      await this.remove(resource, token);
      await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 100));
    }
    return null;
  }

  async remove(resource: string, token: string): Promise<void> {
    await Promise.all(this.nodes.map((node) => guarded(node.eval(DEL_IF_EQUAL, 1, resource, token), 300)));
  }
}

class LockHandle {
  private released = false;

  constructor(
    private readonly client: LockClient,
    private readonly grant: Grant,
  ) {}

  remaining(): number {
    return this.released ? 0 : Math.max(0, this.grant.until - performance.now());
  }

  async release(): Promise<void> {
    this.released = true;
    await this.client.remove(this.grant.resource, this.grant.token);
  }
}

export const make: MakeLock = ({ nodes }) => new LockClient(nodes);
