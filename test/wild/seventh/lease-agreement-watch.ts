import { createClient, WatchError } from 'redis';
import { randomUUID } from 'node:crypto';

type Client = ReturnType<typeof createClient>;

// Our provider forbids EVAL, hence WATCH/MULTI. WATCH belongs to a connection, so every
// hold gets a connection of its own and nothing else runs on it.
export class AgreementLock {
  constructor(private readonly main: Client, private readonly ttlMs = 30_000) {}

  async run<T>(agreementId: string, body: (tx: Signing) => Promise<T>): Promise<T | undefined> {
    const conn = this.main.duplicate();
    conn.on('error', () => {});
    await conn.connect();
    const key = `agreement:${agreementId}:lock`;
    const token = randomUUID();
    try {
      const granted = await conn.set(key, token, { NX: true, PX: this.ttlMs });
      if (granted !== 'OK') return undefined;
      try {
        return await body(new Signing(conn, key, token, agreementId));
      } finally {
        await this.unlock(conn, key, token).catch(() => {});
      }
    } finally {
      conn.destroy();
    }
  }

  private async unlock(conn: Client, key: string, token: string) {
    await conn.watch(key);
    if ((await conn.get(key)) !== token) {
      await conn.unwatch();
      return false;
    }
    try {
      await conn.multi().del(key).exec();
      return true;
    } catch (e) {
      if (e instanceof WatchError) return false; // expired under our hands
      throw e;
    }
  }
}

export class Signing {
  constructor(private conn: Client, private lockKey: string, private token: string, private id: string) {}

  async parties(): Promise<string[]> {
    return this.conn.lRange(`agreement:${this.id}:parties`, 0, -1);
  }

  /** Stores the sealed document, only if the lock has been ours from the check up to the write. */
  async seal(document: string): Promise<void> {
    await this.conn.watch(this.lockKey);
    const holder = await this.conn.get(this.lockKey);
    if (holder !== this.token) {
      await this.conn.unwatch();
      throw new Error('agreement lock expired before sealing');
    }
    await this.conn.multi().set(`agreement:${this.id}:sealed`, document).exec();
  }
}
