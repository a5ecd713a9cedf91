'use strict';

const { randomInt, randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const LOCK_MS = 5 * 60_000;
const DRAW_MS = 3 * 60_000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

async function connect() {
  const client = createClient({ url: process.env.REDIS_URL || 'redis://localhost:6379' });
  client.on('error', (err) => console.error('redis:', err.message));
  await client.connect();
  return client;
}

function pickWinners(tickets, count) {
  const pool = [...tickets];
  const winners = [];
  while (winners.length < count && pool.length > 0) {
    const [ticket] = pool.splice(randomInt(pool.length), 1);
    winners.push({ ticketId: ticket.id, ownerId: ticket.ownerId, rank: winners.length + 1 });
  }
  return winners;
}

/**
 * Holds the draw of a day. Every replica has the same timer; the one that gets
 * the key does the draw, the others skip it. A draw that failed is started again by hand
 * from the back office, which calls this as well.
 */
async function runDraw(client, repo, drawDate) {
  const key = `lottery:draw:${drawDate}`;
  const token = randomUUID();
  const signal = AbortSignal.timeout(DRAW_MS);

  const got = await client.set(key, token, { NX: true, PX: LOCK_MS });
  if (got !== 'OK') {
    console.log(`draw ${drawDate} is handled by another replica`);
    return null;
  }

  try {
    const tickets = await repo.ticketsFor(drawDate, { signal });
    const winners = pickWinners(tickets, 3);
    signal.throwIfAborted();
    await repo.saveWinners(drawDate, winners, { signal });
    await repo.notifyWinners(drawDate, winners, { signal });
    console.log(`draw ${drawDate}: ${winners.map((w) => w.ticketId).join(', ')}`);
    return winners;
  } finally {
    await client
      .eval(UNLOCK, { keys: [key], arguments: [token] })
      .catch((err) => console.warn(`could not unlock ${key}`, err));
  }
}

/** Calls runDraw at 20:00 UTC every day. Returns a function that stops it. */
function scheduleDraws(client, repo) {
  let timer;

  const arm = () => {
    const next = new Date();
    next.setUTCHours(20, 0, 0, 0);
    if (next.getTime() <= Date.now()) next.setUTCDate(next.getUTCDate() + 1);
    const drawDate = next.toISOString().slice(0, 10);

    timer = setTimeout(async () => {
      try {
        await runDraw(client, repo, drawDate);
      } catch (err) {
        console.error(`draw ${drawDate} failed`, err);
      }
      arm();
    }, next.getTime() - Date.now());
  };

  arm();
  return () => clearTimeout(timer);
}

module.exports = { connect, runDraw, scheduleDraws };
