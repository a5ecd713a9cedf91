import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const TTL_MS = 12_000;
const MARGIN_MS = 2_000;

const DROP = `
if redis.call('get', KEYS[1]) == ARGV[1] then
	return redis.call('del', KEYS[1])
end
return 0
`;

/**
 * Lease on a warehouse bin. Use with `await using`; it renews itself in the background and
 * `assertHeld()` tells before each write whether it is still good.
 */
export class BinLease implements AsyncDisposable {
	readonly #redis: Redis;
	readonly #key: string;
	readonly #token: string;
	#validUntil: number;
	#timer: NodeJS.Timeout | undefined;
	#disposed = false;

	private constructor(redis: Redis, key: string, token: string, validUntil: number) {
		this.#redis = redis;
		this.#key = key;
		this.#token = token;
		this.#validUntil = validUntil;
		this.#schedule();
	}

	static async take(redis: Redis, binId: string): Promise<BinLease | null> {
		const key = `wms:bin:${binId}`;
		const token = randomUUID();
		const sentAt = performance.now();
		const reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
		return reply === 'OK' ? new BinLease(redis, key, token, sentAt + TTL_MS - MARGIN_MS) : null;
	}

	assertHeld(): void {
		if (performance.now() >= this.#validUntil) {
			throw new Error(`${this.#key}: lease is not valid any more`);
		}
	}

	#schedule(): void {
		this.#timer = setTimeout(() => void this.#renew(), TTL_MS / 4);
	}

	async #renew(): Promise<void> {
		const sentAt = performance.now();
		try {
			// XX: prolongs only what still exists, a lapsed lease is not brought back to life
			const reply = await this.#redis.set(this.#key, this.#token, 'PX', TTL_MS, 'XX');
			if (reply !== 'OK') {
				this.#validUntil = 0;
				return;
			}
			this.#validUntil = sentAt + TTL_MS - MARGIN_MS;
		} catch (err) {
			// not prolonged; assertHeld() stops the work if it doesn't get better in time
			console.warn(`${this.#key}: renewal failed`, err);
		}
		if (!this.#disposed) this.#schedule();
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#disposed = true;
		clearTimeout(this.#timer);
		await this.#redis.eval(DROP, 1, this.#key, this.#token).catch((err: unknown) => {
			console.warn(`${this.#key}: left to expire`, err);
		});
	}
}

export interface Wms {
	skusInBin(binId: string): Promise<string[]>;
	scannedCount(binId: string, sku: string): Promise<number>;
	setStock(binId: string, sku: string, count: number): Promise<void>;
}

export async function recountBin(redis: Redis, wms: Wms, binId: string): Promise<number | null> {
	await using lease = await BinLease.take(redis, binId);
	if (!lease) return null;

	let corrected = 0;
	for (const sku of await wms.skusInBin(binId)) {
		const count = await wms.scannedCount(binId, sku);
		lease.assertHeld();
		await wms.setStock(binId, sku, count);
		corrected++;
	}
	return corrected;
}
