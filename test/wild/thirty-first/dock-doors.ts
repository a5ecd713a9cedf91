import type { Redis } from 'ioredis';

export interface Arrival {
  truck: string;
  dock: string;
  /** Doors this trailer fits, best first. */
  doors: number[];
}

export type Assignment = { truck: string; door: number } | { truck: string; door: null; reason: string };

const HOLD_SECONDS = 6 * 3600;
const ROUNDS = 10;

const VACATE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
return 1`;

/**
 * Hands out dock doors to arriving trucks. A door belongs to at most one truck and a truck has at most
 * one door; the claim stays until the truck leaves, or for six hours if nobody reports it gone.
 */
export class DockDoors {
  constructor(private readonly redis: Redis) {}

  private doorKey(dock: string, door: number) {
    return `dock:{${dock}}:door:${door}`;
  }

  private truckKey(dock: string, truck: string) {
    return `dock:{${dock}}:truck:${truck}`;
  }

  private async claim(dock: string, door: number, truck: string): Promise<'ours' | 'occupied' | 'again'> {
    const doorKey = this.doorKey(dock, door);
    const truckKey = this.truckKey(dock, truck);

    await this.redis.watch(doorKey, truckKey);
    const [occupant, present] = await this.redis.mget(doorKey, truckKey);
    if (present !== null) {
      await this.redis.unwatch();
      return present === String(door) ? 'ours' : 'occupied';
    }
    if (occupant !== null) {
      await this.redis.unwatch();
      return 'occupied';
    }

    const replies = await this.redis
      .multi()
      .set(doorKey, truck, 'EX', HOLD_SECONDS)
      .set(truckKey, String(door), 'EX', HOLD_SECONDS)
      .rpush(`dock:{${dock}}:log`, `${new Date().toISOString()} ${truck} -> ${door}`)
      .exec();
    if (replies === null) return 'again';
    for (const [err] of replies) if (err) throw err;
    return 'ours';
  }

  async assign(arrival: Arrival): Promise<Assignment> {
    const { truck, dock, doors } = arrival;
    for (const door of doors) {
      for (let round = 0; round < ROUNDS; round++) {
        const outcome = await this.claim(dock, door, truck);
        if (outcome === 'ours') return { truck, door };
        if (outcome === 'occupied') break;
        await new Promise((r) => setTimeout(r, Math.random() * 40));
      }
    }
    return { truck, door: null, reason: 'no fitting door is free' };
  }

  /** A wave is what the gate cameras have recognised within one second. */
  async assignWave(wave: Arrival[]): Promise<Assignment[]> {
    const settled = await Promise.allSettled(wave.map((arrival) => this.assign(arrival)));
    return settled.map((s, i) =>
      s.status === 'fulfilled' ? s.value : { truck: wave[i].truck, door: null, reason: String(s.reason) },
    );
  }

  async leave(dock: string, door: number, truck: string): Promise<boolean> {
    const freed = await this.redis.eval(VACATE, 2, this.doorKey(dock, door), this.truckKey(dock, truck), truck);
    return freed === 1;
  }
}
