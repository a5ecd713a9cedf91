import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'iovalkey';

const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export interface Term {
  /** Aborted when the term ends, for whatever reason. */
  readonly signal: AbortSignal;
  /** The clock decides, not a timer: ask right before every broadcast. */
  leading(): boolean;
}

export interface BeaconOptions {
  valkey: Redis;
  name: string;
  leaseMs?: number;
  onElected(term: Term): Promise<void>;
}

/** Exactly one of the beacons may broadcast. Standbys poll. */
export function createBeacon({ valkey, name, leaseMs = 9_000, onElected }: BeaconOptions) {
  const key = `beacon:${name}:leader`;
  const slack = leaseMs * 0.05;
  const stop = new AbortController();
  valkey.on('error', (e: Error) => console.warn(`beacon ${name}: ${e.message}`));

  async function lead(token: string, first: number): Promise<void> {
    let until = first;
    const end = new AbortController();
    const stopped = () => end.abort();
    stop.signal.addEventListener('abort', stopped, { once: true });
    if (stop.signal.aborted) stopped();
    const term: Term = {
      signal: end.signal,
      leading: () => !end.signal.aborted && performance.now() < until,
    };

    const work = Promise.resolve()
      .then(() => onElected(term))
      .catch((e) => console.error(`beacon ${name}: broadcast failed`, e))
      .finally(() => end.abort());

    while (term.leading()) {
      await sleep(Math.min(leaseMs / 3, Math.max(0, until - performance.now())), undefined, { signal: end.signal }).catch(() => {});
      if (!term.leading()) break;
      const sent = performance.now();
      // do not wait for an answer longer than the lease we know of
      const answer = await Promise.race([
        valkey.eval(RENEW, 1, key, token, leaseMs).catch((e: Error) => {
          console.warn(`beacon ${name}: renewal: ${e.message}`);
          return undefined;
        }),
        sleep(Math.max(0, until - sent), undefined, { signal: end.signal }).catch(() => undefined),
      ]);
      if (answer === 0) break;
      if (answer === 1 && term.leading()) until = sent + leaseMs - slack;
    }

    end.abort();
    stop.signal.removeEventListener('abort', stopped);
    await work; // hand over only when our own broadcast has come to rest
    await valkey.eval(RESIGN, 1, key, token).catch((e: Error) => console.warn(`beacon ${name}: resign: ${e.message}`));
  }

  async function run(): Promise<void> {
    while (!stop.signal.aborted) {
      const token = randomUUID(); // one per candidacy, not per process
      const sent = performance.now();
      const won = await valkey.set(key, token, 'PX', leaseMs, 'NX').catch((e: Error) => {
        console.warn(`beacon ${name}: candidacy: ${e.message}`);
        void valkey.eval(RESIGN, 1, key, token).catch(() => {});
        return null;
      });
      if (won === 'OK') await lead(token, sent + leaseMs - slack);
      await sleep(leaseMs / 4 + Math.random() * 500, undefined, { signal: stop.signal }).catch(() => {});
    }
  }

  return { run, stop: () => stop.abort() };
}
