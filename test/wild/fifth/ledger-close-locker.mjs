import Redis from 'iovalkey';
import { randomBytes } from 'node:crypto';

// Month-end close, one legal entity at a time. Nodes are asked one after the other to keep
// two closers from splitting the vote all the time.

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const config = {
  nodes: (process.env.LOCK_NODES ?? 'lock-a:6379,lock-b:6379,lock-c:6379,lock-d:6379,lock-e:6379').split(','),
  ttl: 10_000,
  nodeTimeout: 1_500,
  driftFactor: 0.01,
};

export class CloseLocker {
  #nodes;
  #log;

  constructor(log = console) {
    this.#log = log;
    this.#nodes = config.nodes.map((addr) => {
      const [host, port] = addr.split(':');
      const c = new Redis({
        host,
        port: Number(port),
        commandTimeout: config.nodeTimeout,
        enableOfflineQueue: false,
        autoResendUnfulfilledCommands: false,
        maxRetriesPerRequest: 0,
      });
      c.on('error', (e) => log.debug?.(`${addr}: ${e.message}`));
      return c;
    });
  }

  get #quorum() {
    return Math.floor(this.#nodes.length / 2) + 1;
  }

  async #collect(key, token) {
    let yes = 0;
    for (const node of this.#nodes) {
      try {
        if ((await node.set(key, token, 'PX', config.ttl, 'NX')) === 'OK') yes++;
      } catch (e) {
        this.#log.warn(`${key}: no answer from ${node.options.host}: ${e.message}`);
      }
      if (yes === this.#quorum) break;
    }
    return yes;
  }

  async acquire(entity) {
    const key = `close:${entity}`;
    const token = randomBytes(16).toString('hex');
    const yes = await this.#collect(key, token);

    const grantedAt = performance.now();
    const drift = config.ttl * config.driftFactor + 2;
    const validUntil = grantedAt + config.ttl - drift;

    if (yes < this.#quorum || performance.now() >= validUntil) {
      await this.#release(key, token);
      return null;
    }
    this.#log.info(`${key} locked on ${yes} nodes`);
    return {
      entity,
      remaining: () => validUntil - performance.now(),
      release: () => this.#release(key, token),
    };
  }

  async #release(key, token) {
    await Promise.allSettled(this.#nodes.map((n) => n.eval(RELEASE, 1, key, token)));
  }
}

const STEP_MS = 2_000;

export async function closeMonth(locker, gl, entity, month) {
  const lock = await locker.acquire(entity);
  if (!lock) return 'busy';
  try {
    for (const step of ['freeze', 'accrue', 'carry-forward', 'seal']) {
      if (lock.remaining() < STEP_MS + 500) return 'out-of-time';
      await gl.run(step, { entity, month, serverTimeoutMs: STEP_MS });
    }
    return 'closed';
  } finally {
    await lock.release();
  }
}
