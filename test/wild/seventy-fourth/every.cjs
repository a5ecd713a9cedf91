'use strict';
// every(): a cron-ish ticker for a service that runs on N hosts.
//
// Each tick (00:00, 00:05, ... for everyMs = 5 min, UTC) is run by AT MOST one host. The mark
// of a tick is left in redis on purpose, also when the job fails: a failed tick is not
// repeated, the next tick comes soon enough. This is not a mutex. If a run takes longer than
// the interval, the following tick may start on another host while it is still going.
const os = require('os');
const { createClient } = require('redis');

const GRACE_MS = 60 * 1000; // a host that wakes up later than this leaves the tick alone
const KEEP_MS = 24 * 60 * 60 * 1000; // marks stay around far longer than any host can be late

let shared;
function defaultClient() {
  if (!shared) {
    const client = createClient({ url: process.env.REDIS_URL });
    client.on('error', (err) => console.error('[every] redis', err.message));
    shared = client.connect().then(() => client);
  }
  return shared;
}

async function claim(client, name, tick) {
  const reply = await client.set(`tick:${name}:${tick}`, `${os.hostname()}/${process.pid}`, {
    NX: true,
    PX: KEEP_MS,
  });
  return reply === 'OK';
}

/**
 * @param {string} name      same on all hosts
 * @param {number} everyMs   same on all hosts, up to 24 days
 * @param {(tick: Date) => any} job
 * @param {{ client?: import('redis').RedisClientType, log?: Console }} [opts]
 * @returns {() => void} stop
 */
function every(name, everyMs, job, { client, log = console } = {}) {
  let timer;
  let stopped = false;

  const schedule = (tick) => {
    timer = setTimeout(onTick, Math.max(0, tick - Date.now()), tick);
  };

  const tooLate = (tick) => Date.now() - tick > GRACE_MS;

  async function onTick(tick) {
    // the name of the tick comes from the plan and not from the clock, so it does not matter
    // if the timer fires a bit early or late
    const following = Math.ceil(Date.now() / everyMs) * everyMs;
    if (!stopped) schedule(Math.max(tick + everyMs, following));

    try {
      const conn = client || (await defaultClient());
      if (tooLate(tick) || !(await claim(conn, name, tick))) return;
      // the client queues commands while redis is away, the answer may be hours old
      if (tooLate(tick)) {
        log.warn(`[every] ${name}: too late for ${new Date(tick).toISOString()}`);
        return;
      }
    } catch (err) {
      // can't tell whether somebody has it: don't run
      log.error(`[every] ${name}: no claim, tick skipped here`, err);
      return;
    }

    const t0 = Date.now();
    try {
      await job(new Date(tick));
      log.info(`[every] ${name}: done in ${Date.now() - t0} ms`);
    } catch (err) {
      log.error(`[every] ${name}: failed`, err);
    }
  }

  schedule(Math.ceil(Date.now() / everyMs) * everyMs);

  return function stop() {
    stopped = true;
    clearTimeout(timer);
  };
}

module.exports = { every };
