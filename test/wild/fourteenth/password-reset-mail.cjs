'use strict';

const { createHash, randomUUID } = require('node:crypto');

const QUIET_SECONDS = 90;
const SEND_TIMEOUT_MS = 10_000;

const WITHDRAW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

/**
 * A user gets at most one reset mail in 90 seconds, whatever the number of clicks.
 *
 * @param {{ redis: import('ioredis').Redis, mailer: any, links: any, logger?: Console }} deps
 */
module.exports = function makeResetMails({ redis, mailer, links, logger = console }) {
  return async function sendResetMail(address) {
    const email = address.trim().toLowerCase();
    const key = 'reset-mail:' + createHash('sha256').update(email).digest('hex');
    const token = randomUUID();

    let claimed;
    try {
      claimed = await redis.set(key, token, 'EX', QUIET_SECONDS, 'NX');
    } catch (err) {
      logger.error('reset mail: redis is unavailable', err);
      return { sent: false, reason: 'unavailable' };
    }
    if (claimed !== 'OK') return { sent: false, reason: 'recently-sent' };

    let handedOver = false;
    try {
      const link = await links.create(email, { validMinutes: 30, signal: AbortSignal.timeout(5_000) });
      handedOver = true;
      await mailer.send(
        { to: email, template: 'password-reset', data: { link } },
        { signal: AbortSignal.timeout(SEND_TIMEOUT_MS) },
      );
      return { sent: true };
    } catch (err) {
      // A mail that the server turned down, or that we never got to, can be asked for again at once.
      // After a time-out it may well be on its way, so the claim stays.
      const turnedDown = err && typeof err.responseCode === 'number' && err.responseCode >= 500;
      if (!handedOver || turnedDown) {
        await redis
          .eval(WITHDRAW, 1, key, token)
          .catch((e) => logger.warn('reset mail: claim stays until it expires', e));
      }
      logger.error('reset mail failed', err);
      return { sent: false, reason: 'failed' };
    }
  };
};
