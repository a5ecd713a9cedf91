import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

/**
 * One of the rollout pods drives the firmware rollout, the others stand by.
 */
const LEADER_KEY = 'ota:rollout:leader';
const LEASE_MS = 15_000;
const CAMPAIGN_EVERY_MS = 3_000;
/** The leader stops believing in itself this long before the server forgets it. */
const MARGIN_MS = 3_000;

const CAMPAIGN = `
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export interface DeviceRegistry {
  nextWave(limit: number): Promise<{ deviceId: string; target: string; revision: number }[]>;
  /** Conditional on the revision: false when the device was changed in the meantime. */
  setDesiredFirmware(deviceId: string, target: string, ifRevision: number): Promise<boolean>;
}

type Client = ReturnType<typeof createClient>;

export class RolloutLeader {
  private readonly id = `${process.env.POD_NAME ?? 'local'}:${randomUUID()}`;
  private readonly stopping = new AbortController();
  private validUntil = 0;
  private loops: Promise<unknown> | undefined;

  constructor(
    private readonly client: Client,
    private readonly registry: DeviceRegistry,
  ) {}

  isLeader(): boolean {
    return performance.now() < this.validUntil;
  }

  start(): void {
    this.loops ??= Promise.allSettled([this.campaignLoop(), this.rolloutLoop()]);
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    await this.loops;
    this.validUntil = 0;
    await this.client
      .eval(RESIGN, { keys: [LEADER_KEY], arguments: [this.id] })
      .catch((err: Error) => console.warn(`[ota] resignation failed, lease runs out: ${err.message}`));
  }

  private async campaignLoop(): Promise<void> {
    while (!this.stopping.signal.aborted) {
      const was = this.isLeader();
      const sentAt = performance.now();
      try {
        const won = await this.client.eval(CAMPAIGN, {
          keys: [LEADER_KEY],
          arguments: [this.id, String(LEASE_MS)],
        });
        this.validUntil = won === 1 ? sentAt + LEASE_MS - MARGIN_MS : 0;
      } catch (err) {
        console.warn(`[ota] campaign failed: ${(err as Error).message}`);
      }
      if (was !== this.isLeader()) console.info(`[ota] ${this.id} ${was ? 'lost' : 'took'} the rollout`);
      await this.pause(CAMPAIGN_EVERY_MS);
    }
  }

  private async rolloutLoop(): Promise<void> {
    while (!this.stopping.signal.aborted) {
      if (this.isLeader()) {
        await this.runWave().catch((err: Error) => console.error(`[ota] wave failed: ${err.message}`));
      }
      await this.pause(2_000);
    }
  }

  private async runWave(): Promise<void> {
    const wave = await this.registry.nextWave(50);
    for (const { deviceId, target, revision } of wave) {
      if (this.stopping.signal.aborted || !this.isLeader()) return;
      const applied = await this.registry.setDesiredFirmware(deviceId, target, revision);
      if (!applied) console.info(`[ota] ${deviceId} changed meanwhile, skipped`);
    }
  }

  private async pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.stopping.signal }).catch(() => undefined);
  }
}

export async function connectAndLead(registry: DeviceRegistry): Promise<RolloutLeader> {
  const client = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
  client.on('error', (err) => console.error('[ota] redis', err));
  await client.connect();
  const leader = new RolloutLeader(client as Client, registry);
  leader.start();
  return leader;
}
