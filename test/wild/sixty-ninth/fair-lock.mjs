import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * First come, first served lock for the CNC machines: jobs must get to a machine in the order in
 * which operators sent them. Tickets line up in a list, only the head of the line may take the lock.
 */

const TRY_ENTER = `
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then
  return 0
end
if not redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 0
end
redis.call('LPOP', KEYS[1])
return 1
`;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
`;

const LEAVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export class MachineBusyError extends Error {
  constructor(machine, waited) {
    super(`machine ${machine} is busy, waited ${waited} ms`);
    this.name = 'MachineBusyError';
  }
}

export class MachineQueue {
  /** @param {import('redis').RedisClientType} redis */
  constructor(redis, { ttlMs = 15_000, waitMs = 60_000, pollMs = 100, logger = console } = {}) {
    Object.assign(this, { redis, ttlMs, waitMs, pollMs, logger });
  }

  keys(machine) {
    return { line: `{machine:${machine}}:line`, lock: `{machine:${machine}}:lock` };
  }

  async enter(machine) {
    const { line, lock } = this.keys(machine);
    const ticket = randomUUID();
    const begun = Date.now();
    await this.redis.rPush(line, ticket);
    while (Date.now() - begun < this.waitMs) {
      const ok = await this.redis.eval(TRY_ENTER, { keys: [line, lock], arguments: [ticket, String(this.ttlMs)] });
      if (ok === 1) return ticket;
      await sleep(this.pollMs);
    }
    throw new MachineBusyError(machine, Date.now() - begun);
  }

  async run(machine, work) {
    const { lock } = this.keys(machine);
    const ticket = await this.enter(machine);
    const lost = new AbortController();
    let good = Date.now();
    const beat = setInterval(async () => {
      const at = Date.now();
      try {
        const ok = await this.redis.eval(EXTEND, { keys: [lock], arguments: [ticket, String(this.ttlMs)] });
        if (ok === 1) good = at;
        else lost.abort(new Error(`lost machine ${machine}`));
      } catch (err) {
        this.logger.warn(`extend ${lock}: ${err.message}`);
        if (Date.now() - good > this.ttlMs * 0.7) lost.abort(new Error(`lost machine ${machine}`));
      }
    }, this.ttlMs / 4);
    try {
      return await work(lost.signal);
    } finally {
      clearInterval(beat);
      await this.redis
        .eval(LEAVE, { keys: [lock], arguments: [ticket] })
        .catch((err) => this.logger.warn(`leave ${lock}: ${err.message}`));
    }
  }

  /** For the dashboard on the shop floor. */
  async status(machine) {
    const { line, lock } = this.keys(machine);
    const [waiting, holder] = await Promise.all([this.redis.lLen(line), this.redis.get(lock)]);
    return { machine, waiting, busy: holder !== null };
  }
}

export function jobHandler(queue, controller) {
  return async function handle(job) {
    return queue.run(job.machine, async (signal) => {
      const session = await controller.open(job.machine);
      try {
        for (const step of job.steps) {
          signal.throwIfAborted();
          await session.execute(step);
        }
        return { jobId: job.id, steps: job.steps.length };
      } finally {
        await session.close();
      }
    });
  };
}
