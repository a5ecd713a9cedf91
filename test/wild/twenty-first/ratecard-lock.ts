import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/*
 * Freight rate cards are recalculated by workers in three data centres. The lock lives on
 * independent redis masters, one per rack, so losing a rack does not stop the tariffs.
 * Clients must be created with a commandTimeout and enableOfflineQueue: false.
 */

const RELEASE = `
    if redis.call('GET', KEYS[1]) == ARGV[1] then
        return redis.call('DEL', KEYS[1])
    end
    return 0
`;

export interface Held {
    key: string;
    token: string;
    validUntil: number;
}

export class RateCardLock {
    private readonly masters: Redis[];
    private readonly ttlMs: number;

    constructor(masters: Redis[], ttlMs = 20_000) {
        this.masters = masters;
        this.ttlMs = ttlMs;
    }

    async acquire(lane: string, patienceMs = 5_000): Promise<Held> {
        const giveUpAt = performance.now() + patienceMs;
        do {
            const held = await this.tryOnce(lane);
            if (held) return held;
            await delay(100 + Math.random() * 200);
        } while (performance.now() < giveUpAt);
        throw new Error(`rate card lane ${lane} is being recalculated elsewhere`);
    }

    private async tryOnce(lane: string): Promise<Held | null> {
        const key = `ratecard:${lane}`;
        const token = randomUUID();
        const startedAt = performance.now();

        const settled = await Promise.allSettled(
            this.masters.map((m) => m.set(key, token, 'PX', this.ttlMs, 'NX')),
        );
        // a master that is down has no vote, the others decide by majority
        const ballots = settled.filter((s) => s.status === 'fulfilled').map((s) => s.value);
        const granted = ballots.filter((b) => b === 'OK').length;
        const needed = Math.floor(ballots.length / 2) + 1;

        const validUntil = startedAt + this.ttlMs - (this.ttlMs * 0.01 + 2);
        if (granted >= needed && performance.now() < validUntil) {
            return { key, token, validUntil };
        }
        await this.release({ key, token, validUntil });
        return null;
    }

    async release(held: Held): Promise<void> {
        await Promise.allSettled(this.masters.map((m) => m.eval(RELEASE, 1, held.key, held.token)));
    }
}

export interface Tariffs {
    surcharges(lane: string): Promise<number[]>;
    base(lane: string): Promise<number>;
    publish(lane: string, price: number): Promise<void>;
}

export async function recalculate(lock: RateCardLock, tariffs: Tariffs, lane: string): Promise<number> {
    const held = await lock.acquire(lane);
    try {
        const [base, extra] = await Promise.all([tariffs.base(lane), tariffs.surcharges(lane)]);
        const price = extra.reduce((sum, s) => sum + s, base);
        if (held.validUntil - performance.now() < 2_000) {
            throw new Error(`lane ${lane}: inputs arrived too late, not publishing`);
        }
        await tariffs.publish(lane, price);
        return price;
    } finally {
        await lock.release(held);
    }
}
