import Redis from 'ioredis';
import Redlock, { ResourceLockedError } from 'redlock5';

export interface LedgerStore {
    isClosed(book: string, period: string): Promise<boolean>;
    accounts(book: string): AsyncIterable<{ id: string }>;
    balance(accountId: string, period: string): Promise<bigint>;
    /** INSERT ... ON CONFLICT (account_id, period) DO NOTHING */
    insertClosingEntry(accountId: string, period: string, amount: bigint): Promise<void>;
    /** UPDATE periods SET closed_at = now() WHERE closed_at IS NULL */
    markClosed(book: string, period: string): Promise<void>;
}

// Three standalone masters, no replication between them.
const hosts = (process.env.LOCK_NODES ?? 'lock-a:6379,lock-b:6379,lock-c:6379').split(',');

const nodes = hosts.map((hp) => {
    const [host, port] = hp.split(':');
    const client = new Redis({
        host,
        port: Number(port ?? 6379),
        commandTimeout: 400,
        maxRetriesPerRequest: 1,
    });
    client.on('error', (e) => console.error(`lock node ${hp}: ${e.message}`));
    return client;
});

const redlock = new Redlock(nodes, {
    driftFactor: 0.01,
    retryCount: 20,
    retryDelay: 250,
    retryJitter: 150,
    automaticExtensionThreshold: 4_000,
});

redlock.on('error', (err: unknown) => {
    if (err instanceof ResourceLockedError) return;
    console.error('redlock', err);
});

export async function closePeriod(store: LedgerStore, book: string, period: string): Promise<number> {
    return redlock.using([`ledger:close:${book}`], 12_000, async (signal) => {
        const stillOurs = () => {
            if (signal.aborted) throw signal.error ?? new Error('close lock lost');
        };

        if (await store.isClosed(book, period)) return 0;

        let posted = 0;
        for await (const account of store.accounts(book)) {
            stillOurs();
            const amount = await store.balance(account.id, period);
            if (amount === 0n) continue;

            stillOurs();
            await store.insertClosingEntry(account.id, period, amount);
            posted++;
        }

        // Only a run that has seen every account under the lock may seal the period.
        stillOurs();
        await store.markClosed(book, period);
        return posted;
    });
}

export async function shutdown(): Promise<void> {
    await Promise.allSettled(nodes.map((n) => n.quit()));
}
