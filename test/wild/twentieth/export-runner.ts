import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

const UNLOCK_SCRIPT = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const PROLONG_SCRIPT = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

export class ExportAlreadyRunningError extends Error {}

/**
 * Runs customer exports, at most one per customer over all workers.
 * Exports can take minutes, hence a short lease that is prolonged all the time:
 * when a worker dies the next one can start half a minute later.
 */
export class ExportRunner {
  constructor(
    private readonly redis: RedisClient,
    private readonly leaseSeconds = 30,
  ) {}

  async runExclusive<T>(customerId: string, job: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `export:running:${customerId}`;
    const token = randomUUID();
    const leaseMs = this.leaseSeconds * 1000;
    const safetyMs = 500;

    const asked = performance.now();
    let reply: unknown = null;
    try {
      reply = await this.redis.set(key, token, {
        condition: 'NX',
        expiration: { type: 'EX', value: this.leaseSeconds },
      });
    } catch (err) {
      await this.unlock(key, token); // our write may have arrived all the same
      throw err;
    }
    let validUntil = asked + leaseMs - safetyMs;
    if (reply !== 'OK' || performance.now() >= validUntil) {
      if (reply === 'OK') await this.unlock(key, token);
      throw new ExportAlreadyRunningError(`export of ${customerId} is already running`);
    }

    const lost = new AbortController();
    const onLost = () => lost.abort(new Error(`export lease of ${customerId} is gone`));
    let expiry = setTimeout(onLost, Math.max(0, validUntil - performance.now()));
    let done = false;

    // prolong three times per lease, so two failed rounds are survivable
    const heartbeat = setInterval(async () => {
      const started = performance.now();
      try {
        const ok = await this.redis.eval(PROLONG_SCRIPT, {
          keys: [key],
          arguments: [token, String(this.leaseSeconds)],
        });
        if (done || lost.signal.aborted) return;
        if (ok !== 1) {
          onLost(); // somebody else has the export now
          return;
        }
        validUntil = started + leaseMs - safetyMs;
        clearTimeout(expiry);
        expiry = setTimeout(onLost, Math.max(0, validUntil - performance.now()));
      } catch {
        // connection trouble: the expiry timer stops the job in time
      }
    }, leaseMs / 3);

    try {
      const result = await job(lost.signal);
      lost.signal.throwIfAborted();
      return result;
    } finally {
      done = true;
      clearInterval(heartbeat);
      clearTimeout(expiry);
      await this.unlock(key, token);
    }
  }

  private async unlock(key: string, token: string): Promise<void> {
    await this.redis.eval(UNLOCK_SCRIPT, { keys: [key], arguments: [token] }).catch(() => undefined);
  }
}
