import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

type Client = ReturnType<typeof createClient>;

const COMPARE_AND_DELETE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
const COMPARE_AND_EXPIRE =
  "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end " +
  "if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end " +
  'return 1';

function connect(url: string): Client {
  const client = createClient({
    url,
    // A vote that waits in a queue is worth nothing: fail at once while a node is away.
    disableOfflineQueue: true,
    socket: { connectTimeout: 1000, reconnectStrategy: (retries: number) => Math.min(20 + retries * 20, 400) },
  });
  client.on('error', () => {
    // The client reconnects by itself. Its votes are missing until then.
  });
  client.connect().catch(() => {});
  return client as Client;
}

function orFalse(work: Promise<boolean>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout;
  const timeout = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  return Promise.race([work.catch(() => false), timeout]).finally(() => clearTimeout(timer));
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

export const make: MakeLock = ({ addresses }) => {
  const clients = addresses.map(({ url }) => connect(url));
  const quorum = Math.floor(clients.length / 2) + 1;

  async function ask(each: (client: Client) => Promise<boolean>, ms: number): Promise<number> {
    const votes = await Promise.all(clients.map((client) => orFalse(each(client), ms)));
    return votes.reduce((sum, vote) => sum + Number(vote), 0);
  }

  class Mutex {
    readonly #token = randomUUID();
    readonly #key: string;
    #ttl: number;
    #end = 0;
    #gone = false;

    constructor(resource: string, ttl: number) {
      this.#key = `mutex:${resource}`;
      this.#ttl = ttl;
    }

    async lock(): Promise<boolean> {
      const began = performance.now();
      const votes = await ask(async (client) => {
        const reply = await client.sendCommand(['SET', this.#key, this.#token, 'NX', 'PX', String(this.#ttl)]);
        const mine = String(reply) === 'OK';
        if (mine && this.#gone) this.#remove(client).catch(() => {});
        return mine;
      }, this.#ttl / 4);
      this.#end = began + this.#ttl - this.#ttl * 0.01 - 2;
      return votes >= quorum && performance.now() < this.#end;
    }

    remaining(): number {
      return this.#gone ? 0 : this.#end - performance.now();
    }

    async extend(ttl: number): Promise<Mutex | null> {
      if (this.remaining() <= 0) return null;
      const began = performance.now();
      const end = began + ttl - ttl * 0.01 - 2;
      this.#end = Math.min(this.#end, end);
      this.#ttl = ttl;
      const votes = await ask(async (client) => {
        const reply = await client.eval(COMPARE_AND_EXPIRE, { keys: [this.#key], arguments: [this.#token, String(ttl)] });
        return Number(reply) === 1;
      }, ttl / 4);
      if (votes < quorum || this.remaining() <= 0) return null;
      this.#end = end;
      return this;
    }

    async release(): Promise<void> {
      this.#gone = true;
      const removals = clients.map(async (client) => {
        for (let tries = 0; tries < 6; tries++) {
          if (await orFalse(this.#remove(client), this.#ttl / 8)) return;
          await pause(this.#ttl / 10);
        }
      });
      // Nodes that are away are told in the background.
      await Promise.race([Promise.all(removals), pause(this.#ttl / 4)]);
    }

    async #remove(client: Client): Promise<boolean> {
      await client.eval(COMPARE_AND_DELETE, { keys: [this.#key], arguments: [this.#token] });
      return true;
    }
  }

  return {
    async acquire(resource: string, ttlMs: number) {
      const deadline = performance.now() + 4 * ttlMs + 2000;
      for (;;) {
        const mutex = new Mutex(resource, ttlMs);
        if (await mutex.lock()) return mutex;
        void mutex.release();
        if (performance.now() > deadline) return null;
        await pause(ttlMs * (0.05 + Math.random() / 10));
      }
    },
  };
};
