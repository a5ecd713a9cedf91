'use strict';

const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const TTL = 20000;
const MARGIN = 500;

const RELEASE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0
`;

const EXTEND = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return 0
`;

async function connect(url = process.env.REDIS_URL) {
  const client = createClient({ url });
  client.on('error', (err) => console.error('[newsletter] redis', err.message));
  await client.connect();
  return client;
}

/**
 * Runs job(lease) if nobody else sends this campaign. Ask lease.ok() before
 * each mail that leaves the house.
 */
async function withCampaign(client, campaign, job) {
  const key = `newsletter:${campaign}`;
  const token = randomUUID();
  const release = () =>
    client
      .eval(RELEASE, { keys: [key], arguments: [token] })
      .catch((err) => console.warn(`[newsletter] ${campaign}: not released`, err.message));

  let until = performance.now() + TTL - MARGIN;
  let reply;
  try {
    reply = await client.set(key, token, 'NX', 'PX', TTL);
  } catch (err) {
    void release();
    throw err;
  }
  if (reply !== 'OK') return { sent: false, reason: 'busy' };

  let over = false;
  let timer;
  const beat = async () => {
    const at = performance.now();
    try {
      const kept = await client.eval(EXTEND, { keys: [key], arguments: [token, String(TTL)] });
      if (kept === 1 && performance.now() < until) until = at + TTL - MARGIN;
      else over = true;
    } catch (err) {
      console.warn(`[newsletter] ${campaign}: heartbeat`, err.message);
    }
    if (!over) timer = setTimeout(beat, TTL / 4);
  };
  timer = setTimeout(beat, TTL / 4);

  try {
    const lease = { ok: () => !over && performance.now() < until };
    return { sent: true, result: await job(lease) };
  } finally {
    over = true;
    clearTimeout(timer);
    await release();
  }
}

async function sendCampaign(client, mailer, list, campaign) {
  return withCampaign(client, campaign, async (lease) => {
    let count = 0;
    for await (const recipient of list.pending(campaign)) {
      if (!lease.ok()) throw new Error(`campaign ${campaign}: lost the lease after ${count} mails`);
      await mailer.send(campaign, recipient);
      await list.markSent(campaign, recipient);
      count += 1;
    }
    return count;
  });
}

module.exports = { connect, withCampaign, sendCampaign };
