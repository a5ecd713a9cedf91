// Start/stop of charging sessions. A connector takes one command at a time,
// the station firmware gets confused by anything else.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import { z } from 'zod';

type RedisClient = ReturnType<typeof createClient>;

const LOCK_MS = 30_000;
const COMMAND_MS = 15_000;
const POLL_MS = 400;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end`;

const Answer = z.object({ status: z.enum(['Accepted', 'Rejected']), transactionId: z.number().optional() });
export type Answer = z.infer<typeof Answer>;

export class ConnectorLock {
  constructor(private readonly redis: RedisClient) {}

  private key(stationId: string, connector: number): string {
    return `connector:${stationId}:${connector}`;
  }

  async acquire(stationId: string, connector: number): Promise<string> {
    const key = this.key(stationId, connector);
    const token = randomUUID();
    for (;;) {
      const reply = await this.redis.set(key, token, { NX: true, PX: LOCK_MS });
      if (reply === 'OK') return token;

      // v1 of the gateway wrote these keys without an expiry and some are still
      // around; make sure whatever is there goes away some day
      await this.redis.pExpire(key, LOCK_MS);
      await sleep(POLL_MS + Math.random() * 100);
    }
  }

  async release(stationId: string, connector: number, token: string): Promise<void> {
    await this.redis.eval(UNLOCK, {
      keys: [this.key(stationId, connector)],
      arguments: [token],
    });
  }
}

export class ChargingGateway {
  private readonly locks: ConnectorLock;

  constructor(redis: RedisClient, private readonly baseUrl: string) {
    this.locks = new ConnectorLock(redis);
  }

  private async send(stationId: string, command: string, body: unknown): Promise<Answer> {
    const res = await fetch(`${this.baseUrl}/stations/${stationId}/${command}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(COMMAND_MS),
    });
    if (!res.ok) throw new Error(`station ${stationId} ${command}: ${res.status}`);
    return Answer.parse(await res.json());
  }

  async start(stationId: string, connector: number, idTag: string): Promise<Answer> {
    const token = await this.locks.acquire(stationId, connector);
    try {
      return await this.send(stationId, 'remote-start', { connectorId: connector, idTag });
    } finally {
      await this.locks.release(stationId, connector, token);
    }
  }

  async stop(stationId: string, connector: number, transactionId: number): Promise<Answer> {
    const token = await this.locks.acquire(stationId, connector);
    try {
      return await this.send(stationId, 'remote-stop', { connectorId: connector, transactionId });
    } finally {
      await this.locks.release(stationId, connector, token);
    }
  }
}
