import { ConflictException, Injectable, Logger } from '@nestjs/common';
import { HttpService } from '@nestjs/axios';
import { firstValueFrom } from 'rxjs';
import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ObservationRepository } from './observation.repository';

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000, maxRetriesPerRequest: 1 });
const logger = new Logger('Exclusive');

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

interface ExclusiveOptions {
  ttlMs: number;
  waitMs: number;
}

/** Runs the method for one holder of the key at a time across all control-room instances. */
export function Exclusive(keyOf: (...args: any[]) => string, { ttlMs, waitMs }: ExclusiveOptions): MethodDecorator {
  return (_target, name, descriptor: PropertyDescriptor) => {
    const original = descriptor.value;

    descriptor.value = async function (this: unknown, ...args: unknown[]) {
      const key = `exclusive:${keyOf(...args)}`;
      const token = randomUUID();
      const giveUpAt = Date.now() + waitMs;

      while ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') {
        if (Date.now() >= giveUpAt) {
          throw new ConflictException(`${String(name)}: ${key} is in use`);
        }
        await sleep(250 + Math.random() * 250);
      }

      try {
        return original.apply(this, args);
      } finally {
        await redis.eval(RELEASE, 1, key, token).catch((err: Error) => {
          logger.warn(`release of ${key}: ${err.message}`);
        });
      }
    };
    return descriptor;
  };
}

interface Target {
  name: string;
  rightAscension: number;
  declination: number;
}

@Injectable()
export class TelescopeSlewService {
  constructor(
    private readonly http: HttpService,
    private readonly observations: ObservationRepository,
  ) {}

  @Exclusive((telescopeId: string) => `mount:${telescopeId}`, { ttlMs: 300_000, waitMs: 20_000 })
  async slewTo(telescopeId: string, target: Target): Promise<{ observationId: string }> {
    // Everything below has to be through in four minutes, slowest mount included.
    const signal = AbortSignal.timeout(240_000);
    const mount = `${process.env.MOUNT_URL}/telescopes/${telescopeId}`;

    await firstValueFrom(this.http.post(`${mount}/dome/unlock`, {}, { signal }));
    await firstValueFrom(
      this.http.post(`${mount}/slew`, { ra: target.rightAscension, dec: target.declination }, { signal }),
    );

    for (;;) {
      signal.throwIfAborted();
      const { data } = await firstValueFrom(this.http.get<{ state: string }>(`${mount}/state`, { signal }));
      if (data.state === 'tracking') break;
      if (data.state === 'fault') throw new Error(`mount ${telescopeId} reported a fault`);
      await sleep(1_000, undefined, { signal });
    }
    return this.observations.open(telescopeId, target.name);
  }
}
