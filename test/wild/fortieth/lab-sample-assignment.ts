import { Injectable, Logger, NotFoundException } from '@nestjs/common';
import { PrismaClient } from '@prisma/client';
import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const LEASE_MS = 10_000;

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

interface Held {
  key: string;
  token: string;
  timer: NodeJS.Timeout;
  lost: boolean;
}

/**
 * Puts samples onto analysers. Analysers poll us: every minute each of them
 * asks for the samples it has been told about, arrived or not.
 */
@Injectable()
export class SampleAssignmentService {
  private readonly log = new Logger(SampleAssignmentService.name);

  constructor(
    private readonly redis: Redis,
    private readonly prisma: PrismaClient,
  ) {}

  private async acquire(sampleId: string): Promise<Held | null> {
    const key = `sample:${sampleId}`;
    const token = randomUUID();
    const ok = await this.redis.set(key, token, 'PX', LEASE_MS, 'NX');
    if (ok !== 'OK') return null;

    const held: Held = { key, token, lost: false, timer: undefined as never };
    held.timer = setInterval(async () => {
      try {
        const kept = await this.redis.eval(RENEW, 1, key, token, LEASE_MS);
        if (kept !== 1) this.drop(held);
      } catch (err) {
        this.log.warn(`renewal of ${key} failed: ${err}`);
        this.drop(held);
      }
    }, LEASE_MS / 3);
    return held;
  }

  private drop(held: Held): void {
    held.lost = true;
    clearInterval(held.timer);
  }

  private async release(held: Held): Promise<void> {
    clearInterval(held.timer);
    await this.redis.eval(RELEASE, 1, held.key, held.token);
  }

  async assign(sampleId: string, analyserId: string): Promise<{ assigned: boolean }> {
    const held = await this.acquire(sampleId);
    if (!held) {
      this.log.debug(`sample ${sampleId} is in somebody else's hands`);
      return { assigned: false };
    }

    const sample = await this.prisma.sample.findUnique({ where: { id: sampleId } });
    if (sample?.status === 'IN_TRANSIT') {
      // still in the tube system, the analyser will ask again
      return { assigned: false };
    }

    try {
      if (!sample) throw new NotFoundException(sampleId);
      if (sample.status !== 'RECEIVED') return { assigned: sample.analyserId === analyserId };

      const programme = await this.prisma.programme.findFirstOrThrow({
        where: { analyserId, material: sample.material },
      });
      if (held.lost) throw new Error(`lost the lease on ${sampleId}`);

      const res = await this.prisma.sample.updateMany({
        where: { id: sampleId, status: 'RECEIVED' },
        data: { status: 'ASSIGNED', analyserId, programmeId: programme.id },
      });
      return { assigned: res.count === 1 };
    } finally {
      await this.release(held);
    }
  }
}
