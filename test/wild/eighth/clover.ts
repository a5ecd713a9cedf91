import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import type { MakeLock } from 'lockstep/testing';

type Client = ReturnType<typeof createClient>;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const COMMAND_TIMEOUT = 180;

async function settle(command: Promise<unknown>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), COMMAND_TIMEOUT);
  });
  const answer = command.catch(() => undefined);
  const first = await Promise.race([answer, timeout]);
  clearTimeout(timer);
  return first;
}

class RedisQuorumLock {
  private readonly clients: Client[];
  private readonly quorum: number;

  constructor(clients: Client[]) {
    this.clients = clients;
    this.quorum = Math.floor(clients.length / 2) + 1;
  }

  async acquire(resource: string, ttlMs: number) {
    for (let attempt = 0; attempt < 6; attempt++) {
      const value = randomUUID();
      const start = performance.now();
      const replies = await Promise.all(
        this.clients.map((client) =>
          settle(client.set(resource, value, { condition: 'NX', expiration: { type: 'PX', value: ttlMs } })),
        ),
      );
      const end = start + ttlMs - (ttlMs * 0.01 + 2);
      const votes = replies.filter((reply) => reply === 'OK').length;
      if (votes >= this.quorum && performance.now() < end) {
        return {
          remaining: () => Math.max(0, end - performance.now()),
          release: () => this.free(resource, value),
        };
      }
      await this.free(resource, value);
      await new Promise((resolve) => setTimeout(resolve, 80 + Math.random() * 160));
    }
    return null;
  }

  private async free(resource: string, value: string): Promise<void> {
    await Promise.all(
      this.clients.map((client) => settle(client.eval(UNLOCK, { keys: [resource], arguments: [value] }))),
    );
  }
}

export const make: MakeLock = ({ addresses }) => {
  const base = createClient();
  const clients = addresses.map(({ host, port }) => {
    const client = base.duplicate({ socket: { host, port } });
    client.on('error', () => {});
    client.connect().catch(() => {});
    return client as Client;
  });
  return new RedisQuorumLock(clients);
};
