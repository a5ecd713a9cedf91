import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { createClient } from "redis";

type RedisConn = ReturnType<typeof createClient>;

// The grant and its number are made in one step. The counter has no expiry on purpose.
const TAKE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return redis.call('INCR', KEYS[2])
end
return 0`;

const GIVE_BACK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0`;

export class StaleGrantError extends Error {}

export interface AccountRow {
    balance: number;
    references: string[];
}

export interface AccountStore {
    /** Marks the row as belonging to `fence` and returns it; refuses numbers already seen. */
    open(accountId: string, fence: number): Promise<AccountRow>;
    /** Writes only if the row still belongs to `fence`. */
    save(accountId: string, fence: number, row: AccountRow): Promise<void>;
}

/** Used by the sandbox; production has the same two statements as stored procedures. */
export class MemoryAccountStore implements AccountStore {
    #rows = new Map<string, AccountRow & { fence: number }>();

    async open(accountId: string, fence: number): Promise<AccountRow> {
        const row = this.#rows.get(accountId) ?? { balance: 0, references: [], fence: 0 };
        if (fence <= row.fence) throw new StaleGrantError(`${accountId}: ${fence} <= ${row.fence}`);
        this.#rows.set(accountId, { ...row, fence });
        return { balance: row.balance, references: [...row.references] };
    }

    async save(accountId: string, fence: number, next: AccountRow): Promise<void> {
        const row = this.#rows.get(accountId);
        if (!row || row.fence !== fence) throw new StaleGrantError(`${accountId}: ${fence} superseded`);
        this.#rows.set(accountId, { ...next, fence });
    }
}

export class LedgerService {
    readonly #redis: RedisConn;
    readonly #store: AccountStore;

    constructor(redis: RedisConn, store: AccountStore) {
        this.#redis = redis;
        this.#store = store;
    }

    async post(accountId: string, amount: number, reference: string): Promise<number> {
        return this.#exclusively(accountId, async (fence) => {
            const row = await this.#store.open(accountId, fence);
            if (row.references.includes(reference)) return row.balance;
            const balance = row.balance + amount;
            await this.#store.save(accountId, fence, {
                balance,
                references: [...row.references, reference],
            });
            return balance;
        });
    }

    async #exclusively<T>(accountId: string, work: (fence: number) => Promise<T>): Promise<T> {
        const lockKey = `{acct:${accountId}}:lock`;
        const fenceKey = `{acct:${accountId}}:fence`;
        const token = randomUUID();

        let fence = 0;
        for (let attempt = 0; attempt < 25 && fence === 0; attempt++) {
            if (attempt > 0) await sleep(80 + Math.random() * 80);
            fence = Number(
                await this.#redis.eval(TAKE, { keys: [lockKey, fenceKey], arguments: [token, "10000"] }),
            );
        }
        if (fence === 0) throw new Error(`account ${accountId} is busy`);

        try {
            return await work(fence);
        } finally {
            await this.#redis
                .eval(GIVE_BACK, { keys: [lockKey], arguments: [token] })
                .catch((err: unknown) => console.warn("ledger: lock left to expire", accountId, err));
        }
    }
}
