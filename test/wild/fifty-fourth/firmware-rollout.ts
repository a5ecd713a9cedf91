import Redis from 'ioredis';
import { Pool } from 'pg';
import { request } from 'undici';
import { ulid } from 'ulid';
import pino from 'pino';
import { config } from '../config';

const log = pino({ name: 'firmware-rollout' });

const DROP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

interface Device {
  id: string;
  gateway: string;
}

/** Walks a campaign wave by wave; one coordinator per campaign over all regions. */
export class RolloutCoordinator {
  private readonly ttlMs = config.rollout.leaseMs ?? 45_000;

  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool,
  ) {}

  async run(campaign: string): Promise<'busy' | 'done' | 'interrupted'> {
    const key = `rollout:${campaign}:coordinator`;
    const owner = ulid();
    const askedAt = Date.now();
    if ((await this.redis.set(key, owner, 'PX', this.ttlMs, 'NX')) !== 'OK') return 'busy';

    const lease = { until: askedAt + this.ttlMs, gone: false };
    const heartbeat = setInterval(() => void this.renew(key, owner, lease), this.ttlMs / 5);
    try {
      return await this.waves(campaign, () => !lease.gone && Date.now() < lease.until - this.ttlMs / 3);
    } finally {
      clearInterval(heartbeat);
      await this.redis.eval(DROP, 1, key, owner).catch((err) => log.warn({ err, campaign }, 'lease not dropped'));
    }
  }

  // XX: a lease that has expired must stay expired
  private async renew(key: string, owner: string, lease: { until: number; gone: boolean }): Promise<void> {
    const sentAt = Date.now();
    try {
      const reply = await this.redis.set(key, owner, 'PX', this.ttlMs, 'XX');
      if (reply === 'OK') {
        lease.until = Math.max(lease.until, sentAt + this.ttlMs);
      } else {
        lease.gone = true;
        log.warn({ key }, 'coordinator lease is gone');
      }
    } catch (err) {
      log.warn({ err, key }, 'heartbeat failed');
    }
  }

  private async waves(campaign: string, mayContinue: () => boolean): Promise<'done' | 'interrupted'> {
    for (;;) {
      if (!mayContinue()) return 'interrupted';
      const { rows } = await this.pool.query<Device>(
        `select d.id, d.gateway from devices d join campaign_targets t on t.device_id = d.id
          where t.campaign = $1 and t.state = 'waiting' order by d.id limit $2`,
        [campaign, config.rollout.waveSize],
      );
      if (rows.length === 0) return 'done';

      let refused = 0;
      for (const device of rows) {
        if (!mayContinue()) return 'interrupted';
        const accepted = await this.push(campaign, device);
        if (!accepted) refused += 1;
        await this.pool.query('update campaign_targets set state = $3 where campaign = $1 and device_id = $2', [
          campaign,
          device.id,
          accepted ? 'flashing' : 'refused',
        ]);
      }
      log.info({ campaign, wave: rows.length, refused }, 'wave sent');
      if (refused > rows.length * config.rollout.maxRefusedShare) {
        await this.pool.query(`update campaigns set state = 'halted' where id = $1`, [campaign]);
        return 'interrupted';
      }
    }
  }

  private async push(campaign: string, device: Device): Promise<boolean> {
    try {
      const res = await request(`${device.gateway}/v2/devices/${device.id}/flash`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ campaign }),
        signal: AbortSignal.timeout(8_000),
      });
      await res.body.dump();
      return res.statusCode === 202;
    } catch (err) {
      log.warn({ err, device: device.id }, 'gateway does not answer');
      return false;
    }
  }
}
