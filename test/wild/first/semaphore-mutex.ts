import { Redis } from 'ioredis';
import { Mutex } from 'redis-semaphore';

const LOCK_MS = 30_000;
const PATIENCE_MS = 8_000;
const PAUSE_MS = 150;

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export interface Section {
  /** Milliseconds for which the section may go on. */
  timeLeft(): number;
}

export class MutexService {
  constructor(private readonly redis: Redis) {}

  /**
   * Critical section on top of redis-semaphore. There is no refresh: 30 s are far more than what the callers need, and
   * they look at `timeLeft()` before each step that others can see.
   */
  async runExclusive<T>(name: string, body: (section: Section) => Promise<T>): Promise<T> {
    const giveUpAt = performance.now() + PATIENCE_MS;
    do {
      // A new identifier for each try.
      const mutex = new Mutex(this.redis, name, {
        lockTimeout: LOCK_MS,
        refreshInterval: 0,
        acquireAttemptsLimit: 1,
        retryInterval: 1,
      });
      const asked = performance.now();
      const timeLeft = () => asked + LOCK_MS * 0.97 - performance.now();
      if (await mutex.tryAcquire()) {
        try {
          if (timeLeft() > 0) return await body({ timeLeft });
        } finally {
          await mutex.release();
        }
      }
      await sleep(PAUSE_MS + Math.random() * PAUSE_MS);
    } while (performance.now() < giveUpAt);
    throw new Error(`${name} is busy`);
  }
}
