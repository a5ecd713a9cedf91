import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

export interface Bed {
  id: string;
  wardId: string;
  isolation: boolean;
}

export interface BedRepository {
  /** Beds of the ward with no current occupant, cheapest to prepare first. */
  findFree(wardId: string): Promise<Bed[]>;
  /**
   * UPDATE beds SET patient_id = :patient, ward_fence = :fence
   *  WHERE id = :bed AND patient_id IS NULL AND ward_fence <= :fence
   * Resolves to false when no row was updated.
   */
  occupy(bedId: string, patientId: string, fence: number): Promise<boolean>;
  /** Same fence condition as occupy(). */
  vacate(bedId: string, patientId: string, fence: number): Promise<boolean>;
}

interface WardLease {
  wardId: string;
  token: string;
  fence: number;
  open: boolean;
}

const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class WardLockedError extends Error {}
export class NoBedError extends Error {}

export class WardCoordinator {
  private static readonly LEASE_MS = 45_000;
  private static readonly WAIT_MS = 8_000;
  private readonly scope = new AsyncLocalStorage<WardLease>();

  constructor(
    private readonly redis: RedisClient,
    private readonly beds: BedRepository,
    private readonly log: Pick<Console, 'warn'> = console,
  ) {}

  admit(wardId: string, patientId: string, needsIsolation: boolean): Promise<Bed> {
    return this.inWard(wardId, async (lease) => {
      const free = await this.beds.findFree(wardId);
      const candidates = free.filter((b) => b.isolation || !needsIsolation);
      for (const bed of candidates) {
        if (await this.beds.occupy(bed.id, patientId, lease.fence)) return bed;
      }
      throw new NoBedError(`ward ${wardId} has no suitable bed for ${patientId}`);
    });
  }

  /** Moves a patient inside one ward; admit() runs under the lease that is already open. */
  transfer(wardId: string, patientId: string, fromBed: string, needsIsolation: boolean): Promise<Bed> {
    return this.inWard(wardId, async (lease) => {
      const target = await this.admit(wardId, patientId, needsIsolation);
      const left = await this.beds.vacate(fromBed, patientId, lease.fence);
      if (!left) this.log.warn(`bed ${fromBed} was not occupied by ${patientId}`);
      return target;
    });
  }

  private async inWard<T>(wardId: string, work: (lease: WardLease) => Promise<T>): Promise<T> {
    const outer = this.scope.getStore();
    if (outer?.open && outer.wardId === wardId) return work(outer);

    const lease = await this.open(wardId);
    try {
      return await this.scope.run(lease, () => work(lease));
    } finally {
      lease.open = false;
      await this.close(lease);
    }
  }

  private async open(wardId: string): Promise<WardLease> {
    const token = randomUUID();
    const giveUpAt = performance.now() + WardCoordinator.WAIT_MS;
    for (let attempt = 0; ; attempt++) {
      const fence = Number(
        await this.redis.eval(ACQUIRE, {
          keys: [`ward:{${wardId}}:lock`, `ward:{${wardId}}:fence`],
          arguments: [token, String(WardCoordinator.LEASE_MS)],
        }),
      );
      if (fence > 0) return { wardId, token, fence, open: true };
      if (performance.now() > giveUpAt) throw new WardLockedError(wardId);
      const ceiling = Math.min(1_000, 50 * 2 ** attempt);
      await sleep(ceiling / 2 + Math.random() * (ceiling / 2));
    }
  }

  private async close(lease: WardLease): Promise<void> {
    try {
      await this.redis.eval(RELEASE, {
        keys: [`ward:{${lease.wardId}}:lock`],
        arguments: [lease.token],
      });
    } catch (err) {
      // The lease runs out by itself; the result of the admission matters more than this reply.
      this.log.warn(`ward ${lease.wardId}: lock left to expire`, err);
    }
  }
}
