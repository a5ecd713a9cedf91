import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

export class NoQuorumError extends Error {}
export class QuorumLostError extends Error {}

function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/**
 * Lock for a hotel floor (linen stock, lift bookings, room states) over several
 * Redis servers that know nothing of each other.
 *
 * @param {object} deps
 * @param {import('ioredis').Redis[]} deps.nodes one client for each server, an odd number of them
 */
export function createFloorLock({ nodes, logger, ttlMs = 10_000, nodeTimeoutMs = 300, attempts = 8, prefix = 'hk:floor' }) {
  if (nodes.length < 3 || nodes.length % 2 === 0) throw new TypeError('an odd number of nodes, three or more, is needed');
  const quorum = (nodes.length >> 1) + 1;
  const drift = Math.ceil(ttlMs * 0.01) + 5;

  async function ask(command, good) {
    const answers = await Promise.allSettled(nodes.map((node) => within(nodeTimeoutMs, command(node))));
    for (const a of answers) if (a.status === 'rejected') logger.debug({ err: a.reason }, 'lock node failed');
    const said = answers.filter((a) => a.status === 'fulfilled');
    const yes = said.filter((a) => a.value === good).length;
    return { yes, no: said.length - yes };
  }

  const releaseAll = (key, token) => ask((n) => n.eval(RELEASE, 1, key, token), 1);

  async function take(key) {
    for (let attempt = 1; attempt <= attempts; attempt++) {
      const token = randomUUID();
      const sentAt = performance.now();
      const { yes } = await ask((n) => n.set(key, token, 'PX', ttlMs, 'NX'), 'OK');
      const validUntil = sentAt + ttlMs - drift;
      if (yes >= quorum && performance.now() < validUntil - ttlMs / 2) return { token, validUntil };
      await releaseAll(key, token);
      await sleep(50 + Math.random() * 100 * attempt);
    }
    throw new NoQuorumError(`no quorum for ${key}`);
  }

  /**
   * Runs work(handle) under the lock. handle.signal aborts when the lock can no longer be
   * counted on; handle.check() throws then, and belongs in front of every write.
   */
  return async function withFloor(floorId, work) {
    const key = `${prefix}:${floorId}`;
    const { token, validUntil: firstUntil } = await take(key);
    let validUntil = firstUntil;
    const lost = new AbortController();
    let done = false;
    let watchdog;

    const lose = (why) => {
      clearInterval(heartbeat);
      lost.abort(new QuorumLostError(`${key}: ${why}`));
    };
    const arm = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(lose, Math.max(0, validUntil - performance.now()), 'validity is over');
    };
    arm();

    const heartbeat = setInterval(async () => {
      const sentAt = performance.now();
      const { yes, no } = await ask((n) => n.eval(EXTEND, 1, key, token, ttlMs), 1);
      if (done || lost.signal.aborted) return;
      if (yes >= quorum) {
        validUntil = Math.max(validUntil, sentAt + ttlMs - drift);
        arm();
      } else if (no >= quorum) {
        lose('no longer held by a majority');
      } else {
        logger.warn({ key, yes, no }, 'lock not extended, trying again');
      }
    }, ttlMs / 4);

    const handle = {
      signal: lost.signal,
      check() {
        lost.signal.throwIfAborted();
        if (performance.now() >= validUntil) throw new QuorumLostError(`${key}: validity is over`);
      },
    };

    try {
      return await work(handle);
    } finally {
      done = true;
      clearInterval(heartbeat);
      clearTimeout(watchdog);
      await releaseAll(key, token);
    }
  };
}
