#!/usr/bin/env node
// Renews the TLS certificates. Runs as a scheduled function in three regions,
// and only one of them may talk to the certificate authority.
//
// No client library: the Upstash REST API takes a command as a JSON array and
// answers { "result": ... }.

import { randomUUID } from 'node:crypto';
import { listExpiring, renewCertificate } from './acme.mjs';

const { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: bearer } = process.env;
if (!url || !bearer) {
  console.error('UPSTASH_REDIS_REST_URL and UPSTASH_REDIS_REST_TOKEN have to be set');
  process.exit(2);
}

const KEY = 'lock:certificates';
const TTL_MS = 5 * 60_000;
const MARGIN_MS = 20_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

/** Sends one command and returns its result. */
async function redis(...command) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
    body: JSON.stringify(command.map(String)),
    signal: AbortSignal.timeout(10_000),
  });
  const { result } = await response.json();
  return result;
}

class RestLock {
  #token = randomUUID();
  #until = 0;

  /** SET NX answers "OK", or null when the key exists. */
  async acquire() {
    const sent = performance.now();
    const result = await redis('SET', KEY, this.#token, 'NX', 'PX', TTL_MS);
    if (result === null) return false;
    this.#until = sent + TTL_MS - MARGIN_MS;
    return true;
  }

  /** Starts a new lease; throws when the lock has gone to somebody else. */
  async extend() {
    const sent = performance.now();
    const result = await redis('EVAL', EXTEND, 1, KEY, this.#token, TTL_MS);
    if (result === 0) throw new Error('the lock was lost');
    this.#until = sent + TTL_MS - MARGIN_MS;
  }

  /** A signal which fires before the lease ends. */
  signal() {
    return AbortSignal.timeout(Math.max(1, Math.floor(this.#until - performance.now())));
  }

  release() {
    return redis('EVAL', RELEASE, 1, KEY, this.#token);
  }
}

const lock = new RestLock();
if (!(await lock.acquire())) {
  console.log('another region is renewing, nothing to do');
  process.exit(0);
}

let failed = 0;
try {
  for (const domain of await listExpiring({ days: 30, signal: lock.signal() })) {
    await lock.extend();
    try {
      await renewCertificate(domain, { signal: lock.signal() });
      console.log(`${domain}: renewed`);
    } catch (err) {
      failed++;
      console.error(`${domain}: ${err.message}`);
    }
  }
} catch (err) {
  failed++;
  console.error(err);
} finally {
  await lock.release().catch((err) => console.warn('release failed, the key will expire', err));
}

process.exit(failed > 0 ? 1 : 0);
