import { randomBytes } from 'node:crypto';
import { createClient } from 'redis';

/*
 * Lock over independent Redis masters (no replication between them).
 * Ops note: nodes run with appendfsync=always, and a node that lost its data is
 * kept out of the network for a full TTL before it may answer again.
 */

const SET_TTL_MS = 30_000;
const DRIFT_MS = SET_TTL_MS * 0.01 + 2;
const NODE_TIMEOUT_MS = 300;

const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

const open = (url: string) => {
  const client = createClient({ url, disableOfflineQueue: true });
  client.on('error', () => {}); // a node that is away simply does not vote
  client.connect().catch(() => {});
  return client;
};
type Node = ReturnType<typeof open>;

export interface HeldLock {
  /** Makes sure the lock is ours for `ms` more, prolonging it if needed. Throws otherwise. */
  need(ms: number): Promise<void>;
}

export class NotLocked extends Error {}
export class LockLost extends Error {}

export class MultiLock {
  readonly #nodes: Node[];
  readonly #majority: number;

  constructor(urls: string[]) {
    if (urls.length < 3) throw new Error('at least three nodes, please');
    if (new Set(urls).size !== urls.length) throw new Error('the same node twice');
    this.#nodes = urls.map(open);
    this.#majority = Math.floor(urls.length / 2) + 1;
  }

  /** Asks all nodes at once and counts the ones that said yes in time. */
  async #votes(ask: (node: Node) => Promise<boolean>): Promise<number> {
    const answers = await Promise.all(
      this.#nodes.map((node) => {
        let timer: NodeJS.Timeout | undefined;
        const late = new Promise<boolean>((resolve) => {
          timer = setTimeout(resolve, NODE_TIMEOUT_MS, false);
        });
        const answer = ask(node).catch(() => false);
        return Promise.race([answer, late]).finally(() => clearTimeout(timer));
      }),
    );
    return answers.filter(Boolean).length;
  }

  /** Local time until which a majority keeps the key for us, or null. */
  async #round(ask: (node: Node) => Promise<boolean>): Promise<number | null> {
    const startedAt = performance.now();
    const yes = await this.#votes(ask);
    const until = startedAt + SET_TTL_MS - DRIFT_MS;
    return yes >= this.#majority && performance.now() < until ? until : null;
  }

  #release(key: string, token: string) {
    // To every node: one that answered too late may have the key as well.
    return this.#votes(async (n) => (await n.eval(RELEASE, { keys: [key], arguments: [token] })) === 1);
  }

  async withLock<T>(resource: string, work: (lock: HeldLock) => Promise<T>, attempts = 5): Promise<T> {
    const key = `ml:${resource}`;

    for (let attempt = 0; attempt < attempts; attempt++) {
      const token = randomBytes(20).toString('hex');
      const granted = await this.#round(
        async (n) => (await n.set(key, token, { NX: true, PX: SET_TTL_MS })) === 'OK',
      );
      if (granted === null) {
        await this.#release(key, token);
        await new Promise((r) => setTimeout(r, 100 + Math.random() * 300));
        continue;
      }

      let until = granted;
      const need = async (ms: number) => {
        if (ms > SET_TTL_MS / 2) throw new RangeError('steps must fit in half the ttl');
        if (performance.now() + ms < until) return;
        const longer = await this.#round(
          async (n) =>
            (await n.eval(EXTEND, { keys: [key], arguments: [token, String(SET_TTL_MS)] })) === 1,
        );
        if (longer === null || performance.now() + ms >= longer) throw new LockLost(resource);
        until = longer;
      };

      try {
        return await work({ need });
      } finally {
        await this.#release(key, token);
      }
    }
    throw new NotLocked(resource);
  }
}
