import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";

const UNLOCK = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

type SeatMap = Record<string, { heldBy: string; until: number } | null>;

export interface SeatStore {
	load(showId: string): Promise<SeatMap>;
	save(showId: string, seats: SeatMap): Promise<void>;
}

interface Held {
	key: string;
	token: string;
	validUntil: number;
}

export class ShowLocker {
	private readonly nodes: Redis[];
	private readonly ttl: number;

	constructor(urls: string[], ttl = 8_000) {
		// independent instances in three zones
		this.nodes = urls.map((url) => {
			const node = new Redis(url, { commandTimeout: 150, maxRetriesPerRequest: 0, enableOfflineQueue: false });
			node.on("error", (e) => console.error("lock node", url, e.message));
			return node;
		});
		this.ttl = ttl;
	}

	static fromEnv() {
		return new ShowLocker((process.env.LOCK_REDIS_URLS ?? "").split(",").filter(Boolean));
	}

	async acquire(showId: string, tries = 10): Promise<Held> {
		const key = `show:${showId}:seats`;
		while (tries-- > 0) {
			const token = randomUUID();
			const began = performance.now();
			const answers = await Promise.allSettled(
				this.nodes.map((n) => n.set(key, token, "PX", this.ttl, "NX")),
			);

			// Nodes that are down for maintenance don't get a vote.
			const votes = answers.flatMap((a) => (a.status === "fulfilled" ? [a.value === "OK"] : []));
			const inFavour = votes.filter(Boolean).length;
			const needed = Math.floor(votes.length / 2) + 1;

			const drift = Math.ceil(this.ttl * 0.01) + 2;
			const validUntil = began + this.ttl - drift;
			if (inFavour >= needed && performance.now() < validUntil) {
				return { key, token, validUntil };
			}
			await this.release({ key, token, validUntil });
			await new Promise((r) => setTimeout(r, 50 + Math.random() * 150));
		}
		throw new Error(`show ${showId} is busy`);
	}

	// on every node: one that did not answer may still have taken the key
	async release(held: Held) {
		await Promise.allSettled(this.nodes.map((n) => n.eval(UNLOCK, 1, held.key, held.token)));
	}
}

export async function holdSeats(
	locker: ShowLocker,
	store: SeatStore,
	showId: string,
	seatIds: string[],
	customer: string,
	holdMs = 10 * 60_000,
): Promise<boolean> {
	const held = await locker.acquire(showId);
	try {
		const seats = await store.load(showId);
		const now = Date.now();

		for (const id of seatIds) {
			if (!(id in seats)) throw new RangeError(`no seat ${id} in ${showId}`);
			const h = seats[id];
			if (h && h.until > now && h.heldBy !== customer) return false;
		}
		for (const id of seatIds) seats[id] = { heldBy: customer, until: now + holdMs };

		if (performance.now() > held.validUntil - 2_000) {
			throw new Error("lock too old to save the seat map");
		}
		await store.save(showId, seats);
		return true;
	} finally {
		await locker.release(held);
	}
}
