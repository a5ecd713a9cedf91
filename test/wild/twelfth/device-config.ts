import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

// Pushes configuration to devices in the field. The firmware cannot cope with
// two pushes at a time, so the second one is refused.

const LOCK_MS = 60_000;
const PUSH_TIMEOUT_MS = 20_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class DeviceBusy extends Error {
  constructor(readonly deviceId: string) {
    super(`device ${deviceId} is being configured`);
  }
}

export interface DeviceLink {
  write(deviceId: string, config: Record<string, unknown>, signal: AbortSignal): Promise<void>;
  reboot(deviceId: string, signal: AbortSignal): Promise<void>;
}

class DeviceLocks {
  private readonly held = new Map<string, string>();

  constructor(private readonly redis: Redis) {}

  async acquire(deviceId: string): Promise<boolean> {
    const token = randomUUID();
    const reply = await this.redis.set(`device:${deviceId}:lock`, token, 'PX', LOCK_MS, 'NX');
    if (reply !== 'OK') return false;
    this.held.set(deviceId, token);
    return true;
  }

  async release(deviceId: string): Promise<void> {
    const token = this.held.get(deviceId);
    if (!token) return;
    this.held.delete(deviceId);
    await this.redis.eval(RELEASE, 1, `device:${deviceId}:lock`, token);
  }
}

export class DeviceConfigService {
  private readonly locks: DeviceLocks;

  constructor(
    redis: Redis,
    private readonly link: DeviceLink,
    private readonly log: Pick<Console, 'warn'> = console,
  ) {
    this.locks = new DeviceLocks(redis);
  }

  async push(deviceId: string, config: Record<string, unknown>): Promise<void> {
    try {
      if (!(await this.locks.acquire(deviceId))) throw new DeviceBusy(deviceId);

      const signal = AbortSignal.timeout(PUSH_TIMEOUT_MS);
      await this.link.write(deviceId, config, signal);
      signal.throwIfAborted();
      await this.link.reboot(deviceId, signal);
    } finally {
      await this.locks.release(deviceId).catch((err) => this.log.warn(`lock of ${deviceId} left to expire`, err));
    }
  }
}
