'use strict';

const { randomUUID } = require('crypto');
const { setTimeout: sleep } = require('timers/promises');
const logger = require('./logger');

/*
 * OAuth client-credentials token for the carrier API, shared by all the pods.
 * The carrier throttles /oauth/token hard (10 per minute), so one pod asks and the
 * others wait for its answer. Asking twice is a nuisance, not an error: tokens live side by side.
 */

const FETCH_TIMEOUT_MS = 8000;
const LOCK_MS = 20000;
const WAIT_MS = 25000;
const EARLY_S = 60;

const STORE_AND_UNLOCK = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
redis.call('DEL', KEYS[1])
return 1
`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

class CarrierTokenProvider {
  /**
   * @param {import('redis').RedisClientType} redis connected client
   * @param {{ carrier: string, tokenUrl: string, clientId: string, clientSecret: string }} options
   */
  constructor(redis, options) {
    this.redis = redis;
    this.options = options;
    this.lockKey = `{carrier:${options.carrier}}:token:lock`;
    this.cacheKey = `{carrier:${options.carrier}}:token`;
    this.pending = null;
  }

  get() {
    if (!this.pending) {
      this.pending = this._get().finally(() => {
        this.pending = null;
      });
    }
    return this.pending;
  }

  async _get() {
    const deadline = Date.now() + WAIT_MS;
    while (Date.now() < deadline) {
      const cached = await this.redis.get(this.cacheKey);
      if (cached) return cached;

      const owner = randomUUID();
      const got = await this.redis.set(this.lockKey, owner, { NX: true, PX: LOCK_MS });
      if (got === 'OK') return this._refresh(owner);

      await sleep(150 + Math.floor(Math.random() * 200));
    }
    throw new Error(`no token for ${this.options.carrier} within ${WAIT_MS} ms`);
  }

  async _refresh(owner) {
    let unlocked = false;
    try {
      // someone may have stored it between our look and our lock
      const cached = await this.redis.get(this.cacheKey);
      if (cached) return cached;

      const { accessToken, ttl } = await this._request();
      try {
        const stored = await this.redis.eval(STORE_AND_UNLOCK, {
          keys: [this.lockKey, this.cacheKey],
          arguments: [owner, accessToken, String(ttl)],
        });
        unlocked = stored === 1;
        if (!unlocked) logger.warn({ carrier: this.options.carrier }, 'token fetched too late to be shared');
      } catch (err) {
        logger.warn({ err }, 'could not share the carrier token');
      }
      return accessToken;
    } finally {
      if (!unlocked) {
        await this.redis
          .eval(UNLOCK, { keys: [this.lockKey], arguments: [owner] })
          .catch((err) => logger.warn({ err }, 'token lock stays until it expires'));
      }
    }
  }

  async _request() {
    const { tokenUrl, clientId, clientSecret } = this.options;
    const res = await fetch(tokenUrl, {
      method: 'POST',
      headers: {
        authorization: `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: new URLSearchParams({ grant_type: 'client_credentials' }),
      signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
    });
    if (!res.ok) throw new Error(`carrier token endpoint answered ${res.status}`);
    const json = await res.json();
    if (!json.access_token) throw new Error('carrier token endpoint sent no token');
    const lifetime = Math.floor(Number(json.expires_in) || 0);
    return { accessToken: json.access_token, ttl: Math.max(lifetime - EARLY_S, 1) };
  }
}

module.exports = { CarrierTokenProvider };
