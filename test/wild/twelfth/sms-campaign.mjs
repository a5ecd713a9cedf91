import { randomUUID } from 'node:crypto';

// A campaign is started from the admin UI; impatient people press the button on
// two tabs. Texts cost money, so a campaign runs on one worker only.

const TTL_MS = 60_000;

const RELEASE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0`;

const EXTEND = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return 0`;

/**
 * @param {import('redis').RedisClientType} client
 * @param {{
 *   recipients(campaignId: string): AsyncIterable<{ phone: string, text: string }>,
 *   send(phone: string, text: string, signal: AbortSignal): Promise<void>,
 *   markSent(campaignId: string, phone: string): Promise<void>,
 * }} gateway
 */
export async function runCampaign(client, gateway, campaignId) {
  const key = `sms:campaign:${campaignId}:lock`;
  const token = randomUUID();

  const sentAt = performance.now();
  const reply = await client.sendCommand(['SET', key, token, 'PX', String(TTL_MS), 'NX']);
  if (reply === 0) {
    return { started: false, sent: 0 };
  }

  const stop = new AbortController();
  let expiry;
  const arm = (from) => {
    clearTimeout(expiry);
    const left = from + TTL_MS - 5_000 - performance.now();
    expiry = setTimeout(() => stop.abort(new Error('campaign lock ran out')), Math.max(0, left));
  };
  let open = true;
  arm(sentAt);
  const beat = setInterval(async () => {
    const at = performance.now();
    const kept = await client.sendCommand(['EVAL', EXTEND, '1', key, token, String(TTL_MS)]).catch(() => null);
    if (!open || stop.signal.aborted || kept === null) return;
    if (kept === 1) arm(at);
    else stop.abort(new Error('campaign lock was lost'));
  }, TTL_MS / 4);

  let sent = 0;
  try {
    for await (const { phone, text } of gateway.recipients(campaignId)) {
      stop.signal.throwIfAborted();
      await gateway.send(phone, text, stop.signal);
      await gateway.markSent(campaignId, phone);
      sent++;
    }
    return { started: true, sent };
  } finally {
    open = false;
    clearInterval(beat);
    clearTimeout(expiry);
    await client.sendCommand(['EVAL', RELEASE, '1', key, token]).catch(() => {});
  }
}
