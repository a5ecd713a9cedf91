import { ConflictException, Inject, Injectable } from '@nestjs/common';
import type Redis from 'ioredis';
import type { MqttClient } from 'mqtt';
import { randomUUID } from 'node:crypto';

const LOCK_MS = 60_000;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

@Injectable()
export class DeviceLockService {
  private readonly ownerId = randomUUID();
  private readonly depth = new Map<string, number>();

  constructor(@Inject('REDIS') private readonly redis: Redis) {}

  /** Reentrant, because updateFirmware() calls sendCommand() while it holds the lock. */
  async acquire(deviceId: string): Promise<boolean> {
    const key = `lock:device:${deviceId}`;
    const reply = await this.redis.set(key, this.ownerId, 'PX', LOCK_MS, 'NX');
    if (reply === 'OK') {
      this.depth.set(key, 1);
      return true;
    }

    const extended = await this.redis.eval(EXTEND, 1, key, this.ownerId, LOCK_MS);
    if (extended === 1) {
      this.depth.set(key, (this.depth.get(key) ?? 0) + 1);
      return true;
    }
    return false;
  }

  async release(deviceId: string): Promise<void> {
    const key = `lock:device:${deviceId}`;
    const left = (this.depth.get(key) ?? 1) - 1;
    if (left > 0) {
      this.depth.set(key, left);
      return;
    }
    this.depth.delete(key);
    await this.redis.eval(UNLOCK, 1, key, this.ownerId);
  }
}

@Injectable()
export class DeviceCommandService {
  constructor(
    private readonly locks: DeviceLockService,
    @Inject('MQTT') private readonly mqtt: MqttClient,
  ) {}

  private async locked<T>(deviceId: string, fn: () => Promise<T>): Promise<T> {
    if (!(await this.locks.acquire(deviceId))) {
      throw new ConflictException(`device ${deviceId} is busy`);
    }
    try {
      return await fn();
    } finally {
      await this.locks.release(deviceId).catch((err) => console.warn('release', deviceId, err));
    }
  }

  async sendCommand(deviceId: string, command: string, payload: object = {}): Promise<void> {
    await this.locked(deviceId, async () => {
      await this.mqtt.publishAsync(`devices/${deviceId}/cmd`, JSON.stringify({ command, ...payload }), { qos: 1 });
    });
  }

  // Called from the firmware controller. A device bricks when two images arrive interleaved.
  async updateFirmware(deviceId: string, version: string, chunks: Buffer[]): Promise<void> {
    if (chunks.length > 64) throw new ConflictException('image too large');
    await this.locked(deviceId, async () => {
      await this.sendCommand(deviceId, 'fw-begin', { version, chunks: chunks.length });
      for (const [index, chunk] of chunks.entries()) {
        await this.sendCommand(deviceId, 'fw-chunk', { index, data: chunk.toString('base64') });
      }
      await this.sendCommand(deviceId, 'fw-commit', { version });
    });
  }
}
