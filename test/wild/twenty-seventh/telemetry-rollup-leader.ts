import { randomUUID } from "node:crypto";
import { createClient } from "redis";

type Client = ReturnType<typeof createClient>;

export interface RollupStore {
	cursor(): Promise<number>;
	rawSince(ts: number, limit: number): Promise<{ ts: number; device: string; kwh: number }[]>;
	/** adds to the totals and moves the cursor, in one database transaction */
	addToTotals(sums: Map<string, number>, newCursor: number): Promise<void>;
}

export interface LeaderOptions {
	client: Client;
	store: RollupStore;
	logger: { info(o: object, m: string): void; error(o: object, m: string): void };
	ttlMs?: number;
	everyMs?: number;
}

const KEY = "telemetry:rollup:leader";

/**
 * All replicas run this; one of them is the leader and adds raw readings to the totals.
 * When it dies, another replica takes over after ttlMs.
 */
export class RollupLeader {
	private readonly id = randomUUID();
	private readonly ttlMs: number;
	private readonly everyMs: number;
	private leading = false;
	private stopped = false;
	private timer?: NodeJS.Timeout;
	private running: Promise<void> = Promise.resolve();

	constructor(private readonly o: LeaderOptions) {
		this.ttlMs = o.ttlMs ?? 30_000;
		this.everyMs = o.everyMs ?? 5_000;
	}

	start(): void {
		this.running = this.tick();
	}

	async stop(): Promise<void> {
		this.stopped = true;
		clearTimeout(this.timer);
		await this.running;
		this.leading = false;
		await this.o.client.eval(
			`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`,
			{ keys: [KEY], arguments: [this.id] },
		);
	}

	private async tick(): Promise<void> {
		try {
			this.leading = this.leading ? await this.renew() : await this.campaign();
			if (this.leading) await this.rollUp();
		} catch (err) {
			this.leading = false;
			this.o.logger.error({ err, id: this.id }, "rollup tick failed");
		}
		if (!this.stopped) this.timer = setTimeout(() => this.start(), this.everyMs);
	}

	private async campaign(): Promise<boolean> {
		const won = (await this.o.client.set(KEY, this.id, { NX: true, PX: this.ttlMs })) === "OK";
		if (won) this.o.logger.info({ id: this.id }, "became leader");
		return won;
	}

	private async renew(): Promise<boolean> {
		// false when the key has expired: then we are a follower again
		const alive = Boolean(await this.o.client.pExpire(KEY, this.ttlMs));
		if (!alive) this.o.logger.info({ id: this.id }, "lost leadership");
		return alive;
	}

	private async rollUp(): Promise<void> {
		const { store } = this.o;
		const rows = await store.rawSince(await store.cursor(), 500);
		if (rows.length === 0) return;
		const sums = new Map<string, number>();
		for (const r of rows) sums.set(r.device, (sums.get(r.device) ?? 0) + r.kwh);
		await store.addToTotals(sums, rows[rows.length - 1].ts);
	}
}
