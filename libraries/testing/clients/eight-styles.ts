import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { LockUnderTest, MakeLock } from '../../testing.js';

/** A right lock client. */
export interface RightLock {
  readonly style: string;
  readonly make: MakeLock;
}

const DEL = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;
const EXTEND = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`;
const TAKE = `if redis.call("get", KEYS[1]) == false then redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) return 1 end
return 0`;

/** Settles within `ms`; a late rejection is swallowed. */
function within<T>(p: Promise<T>, ms: number): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const t = setTimeout(() => reject(new Error('no answer in time')), ms);
    p.then(
      (v) => {
        clearTimeout(t);
        resolve(v);
      },
      (e) => {
        clearTimeout(t);
        reject(e);
      },
    );
  });
}

/** Whether a node answers like this in time. */
function says<T>(sent: Promise<T>, ms: number, yes: T): Promise<boolean> {
  return within(sent, ms).then(
    (it) => it === yes,
    () => false,
  );
}

/** Deletes a grant that comes once its attempt is over. */
function dropIfLate(sent: Promise<unknown>, drop: () => unknown): void {
  sent.then(drop, drop);
}

const drift = (ttl: number): number => Math.ceil(ttl * 0.01) + 2;
const majorityOf = (nodes: Redis[]): number => Math.floor(nodes.length / 2) + 1;

/** 1: one node after another. */
function sequential({ nodes }: { nodes: Redis[] }): LockUnderTest {
  return {
    async acquire(resource: string, ttl: number) {
      for (let attempt = 0; attempt < 4; attempt++) {
        if (attempt > 0) await sleep(30 + Math.floor(Math.random() * 170));
        const token = randomBytes(20).toString('hex');
        const start = performance.now();
        const until = start + ttl - drift(ttl);
        let over = false;
        let votes = 0;
        const drop = (n: Redis) => says(n.eval(DEL, 1, resource, token), 100, 1);
        const release = async (): Promise<void> => {
          over = true;
          await Promise.all(nodes.map(drop));
        };
        for (const n of nodes) {
          const sent = n.set(resource, token, 'PX', ttl, 'NX');
          dropIfLate(sent, () => over && drop(n));
          if (await says(sent, 50, 'OK')) votes++;
        }
        if (votes >= majorityOf(nodes) && until - performance.now() > 0)
          return { release, remaining: () => (over ? 0 : Math.max(0, until - performance.now())) };
        await release();
      }
      return null;
    },
  };
}

/** 2: a class, all nodes at once, extend(). */
class ParallelLock {
  validity: number;
  over = false;
  readonly nodes: Redis[];
  readonly key: string;
  readonly token: string;
  constructor(nodes: Redis[], key: string, token: string, start: number, ttl: number) {
    this.nodes = nodes;
    this.key = key;
    this.token = token;
    this.validity = start + ttl - drift(ttl);
  }
  get expiration(): number {
    return this.over ? 0 : Date.now() + (this.validity - performance.now());
  }
  alive(): boolean {
    return !this.over && performance.now() < this.validity;
  }
  async drop(n: Redis): Promise<void> {
    await within(n.eval(DEL, 1, this.key, this.token), 200).catch(() => undefined);
  }
  async ask(n: Redis, ttl: number): Promise<boolean> {
    const sent = n.set(this.key, this.token, 'PX', ttl, 'NX');
    dropIfLate(sent, () => this.over && this.drop(n));
    return says(sent, 200, 'OK');
  }
  async release(): Promise<void> {
    this.over = true;
    await Promise.all(this.nodes.map((n) => this.drop(n)));
  }
  async extend(ttl: number): Promise<boolean> {
    if (!this.alive()) return false;
    const until = performance.now() + ttl - drift(ttl);
    // A shorter TTL may be in force from now on, wherever it arrives.
    this.validity = Math.min(this.validity, until);
    const replies = await Promise.all(
      this.nodes.map((n) => says(n.eval(EXTEND, 1, this.key, this.token, String(ttl)), 200, 1)),
    );
    if (replies.filter(Boolean).length < majorityOf(this.nodes) || !this.alive() || performance.now() >= until)
      return false;
    this.validity = until;
    return true;
  }
}
function parallel({ nodes }: { nodes: Redis[] }): LockUnderTest {
  return {
    async acquire(resource: string, ttl: number) {
      for (let left = 3; left > 0; left--) {
        const lock = new ParallelLock(nodes, resource, randomUUID(), performance.now(), ttl);
        const votes = await Promise.all(nodes.map((n) => lock.ask(n, ttl)));
        if (votes.filter(Boolean).length >= majorityOf(nodes) && lock.alive()) return lock;
        await lock.release();
        if (left > 1) await sleep(50 + Math.random() * 200);
      }
      return null;
    },
  };
}

/** 3: acquire() with a watchdog that extends until release or loss, and a signal. */
function watchdog({ nodes }: { nodes: Redis[] }): LockUnderTest {
  const inner = parallel({ nodes });
  return {
    async acquire(resource: string, ttl: number) {
      const lock = (await inner.acquire?.(resource, ttl)) as ParallelLock | null;
      if (lock === null) return null;
      const lost = new AbortController();
      let expiry: NodeJS.Timeout | undefined;
      let beat: NodeJS.Timeout | undefined;
      const stop = (): void => {
        clearTimeout(expiry);
        clearTimeout(beat);
        lost.abort();
      };
      const arm = (): void => {
        clearTimeout(expiry);
        expiry = setTimeout(stop, Math.max(0, Math.floor(lock.validity - performance.now())));
      };
      const next = (): void => {
        beat = setTimeout(
          () => {
            const extended = lock.extend(ttl);
            arm();
            void extended.then((ok) => {
              if (lost.signal.aborted) return;
              if (ok) arm();
              next();
            });
          },
          Math.max(1, Math.floor(ttl / 3)),
        );
      };
      arm();
      next();
      return {
        signal: lost.signal,
        release: async () => {
          stop();
          await lock.release();
        },
      };
    },
  };
}

/** 4: closures and using(). */
function closures({ nodes }: { nodes: Redis[] }): LockUnderTest {
  const guardian = watchdog({ nodes });
  return {
    async using(resource: string, ttl: number, routine: (signal?: AbortSignal) => Promise<void>) {
      const held = (await guardian.acquire?.(resource, ttl)) as {
        signal: AbortSignal;
        release(): Promise<void>;
      } | null;
      if (held === null) throw new Error(`${resource} is locked`);
      try {
        return await routine(held.signal);
      } finally {
        await held.release();
      }
    },
  };
}

/** 5: as little as will do. */
const minimal = ({ nodes }: { nodes: Redis[] }): LockUnderTest => ({
  async acquire(key: string, ttl: number) {
    for (let i = 0; i < 3; i++, await sleep(Math.random() * 150)) {
      const id = randomUUID();
      const end = performance.now() + ttl * 0.98 - 5;
      let done = false;
      const free = () => {
        done = true;
        return Promise.all(nodes.map((n) => within(n.eval(DEL, 1, key, id), 120).catch(() => 0)));
      };
      const oks = await Promise.all(
        nodes.map((n) => {
          const p = n.set(key, id, 'PX', ttl, 'NX').finally(() => {
            if (done) void within(n.eval(DEL, 1, key, id), 120).catch(() => 0);
          });
          return within(p, 120).catch(() => null);
        }),
      );
      if (oks.filter((r) => r === 'OK').length > nodes.length / 2 && performance.now() < end)
        return {
          release: free,
          get isHeld() {
            return !done && performance.now() < end;
          },
        };
      await free();
    }
    return null;
  },
});

/** 6: GET and SET in one script. */
function script({ nodes }: { nodes: Redis[] }): LockUnderTest {
  return {
    async acquire(resource: string, ttl: number) {
      for (let i = 0; i < 3; i++) {
        if (i > 0) await sleep(100 + Math.floor(Math.random() * 100));
        const token = randomBytes(16).toString('base64');
        const until = performance.now() + ttl - drift(ttl);
        let closed = false;
        const drop = (n: Redis) => says(n.eval(DEL, 1, resource, token), 250, 1);
        const results = await Promise.allSettled(
          nodes.map((n) => {
            const sent = n.eval(TAKE, 1, resource, token, String(ttl));
            dropIfLate(sent, () => closed && drop(n));
            return within(sent, 250);
          }),
        );
        const granted = results.filter((r) => r.status === 'fulfilled' && r.value === 1).length;
        const release = async (): Promise<void> => {
          closed = true;
          await Promise.all(nodes.map(drop));
        };
        if (granted >= majorityOf(nodes) && performance.now() < until)
          return {
            release,
            get validUntil() {
              return new Date(closed ? 0 : Math.floor(Date.now() + until - performance.now()));
            },
          };
        await release();
      }
      return null;
    },
  };
}

/** 7: isValid() compares clocks; resolves at the majority, without waiting for the rest. */
function clock({ nodes }: { nodes: Redis[] }): LockUnderTest {
  const need = majorityOf(nodes);
  return {
    async acquire(resource: string, ttl: number) {
      for (let i = 0; i < 3; i++) {
        const token = randomUUID();
        const until = performance.now() + ttl - drift(ttl);
        let over = false;
        const drop = (n: Redis) => says(n.eval(DEL, 1, resource, token), 100, 1);
        const won = await new Promise<boolean>((resolve) => {
          let yes = 0;
          let no = 0;
          for (const n of nodes) {
            const sent = n.set(resource, token, 'PX', ttl, 'NX');
            dropIfLate(sent, () => over && drop(n));
            says(sent, 100, 'OK').then((ok) => {
              if (ok) yes++;
              else no++;
              if (yes >= need) resolve(true);
              else if (no > nodes.length - need) resolve(false);
            });
          }
        });
        const release = async (): Promise<void> => {
          over = true;
          await Promise.all(nodes.map(drop));
        };
        if (won && performance.now() < until) return { release, isValid: () => !over && performance.now() < until };
        await release();
        if (i < 2) await sleep(20 + Math.random() * 230);
      }
      return null;
    },
  };
}

/** 8: EVALSHA, and EVAL where the script is not known. */
function sha({ nodes }: { nodes: Redis[] }): LockUnderTest {
  const digest = (text: string): string => createHash('sha1').update(text).digest('hex');
  const shas: Record<string, string> = { [TAKE]: digest(TAKE), [DEL]: digest(DEL), [EXTEND]: digest(EXTEND) };
  const run = async (n: Redis, text: string, key: string, ...args: string[]): Promise<unknown> => {
    try {
      return await n.evalsha(shas[text] ?? '', 1, key, ...args);
    } catch (e) {
      if (!(e instanceof Error) || !e.message.includes('NOSCRIPT')) throw e;
      return n.eval(text, 1, key, ...args);
    }
  };
  return {
    async acquire(resource: string, ttl: number) {
      for (let i = 0; i < 3; i++) {
        if (i > 0) await sleep(50 + Math.random() * 100);
        const token = randomBytes(16).toString('hex');
        let until = performance.now() + ttl - drift(ttl);
        let over = false;
        const valid = (): boolean => !over && performance.now() < until;
        const drop = (n: Redis) => says(run(n, DEL, resource, token), 300, 1);
        const release = async (): Promise<void> => {
          over = true;
          await Promise.all(nodes.map(drop));
        };
        const votes = await Promise.all(
          nodes.map((n) => {
            const sent = run(n, TAKE, resource, token, String(ttl));
            dropIfLate(sent, () => over && drop(n));
            return says(sent, 300, 1);
          }),
        );
        if (votes.filter(Boolean).length >= majorityOf(nodes) && valid()) {
          const extend = async (ms: number): Promise<boolean> => {
            if (!valid()) return false;
            const next = performance.now() + ms - drift(ms);
            until = Math.min(until, next);
            const oks = await Promise.all(nodes.map((n) => says(run(n, EXTEND, resource, token, String(ms)), 300, 1)));
            if (oks.filter(Boolean).length < majorityOf(nodes) || !valid() || performance.now() >= next) return false;
            until = next;
            return true;
          };
          return { release, extend, isExpired: () => !valid() };
        }
        await release();
      }
      return null;
    },
  };
}

/** Eight right clients, written from the public interface alone, by somebody who did not know how they would be tested. */
export const EIGHT_STYLES: readonly RightLock[] = [
  { style: 'one node after another, remaining()', make: sequential },
  { style: 'class, all nodes at once, expiration, extend()', make: parallel },
  { style: 'acquire() with a watchdog that extends, signal', make: watchdog },
  { style: 'using() with a signal, extended by itself', make: closures },
  { style: 'as little as will do, getter isHeld', make: minimal },
  { style: 'GET and SET in one Lua script, validUntil as a Date', make: script },
  { style: 'isValid() compares clocks, no timer; settles at the majority', make: clock },
  { style: 'EVALSHA with EVAL as fallback, isExpired(), extend()', make: sha },
];
