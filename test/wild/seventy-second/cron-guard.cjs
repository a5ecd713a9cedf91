const os = require('os');
const crypto = require('crypto');
const Redis = require('ioredis');

/**
 * Runs a job every `interval` ms on exactly one of the machines which schedule it.
 *
 * Each tick has a name made of the job's name and the tick's planned time. The
 * first machine to claim the name runs the job, and the claim is never given
 * back: it lives for `claimTtl`, much longer than clocks can be apart.
 *
 * A tick is run at most once. If the winner dies the tick is skipped. Ticks may
 * overlap if the job takes longer than the interval, the job must cope with it.
 */
function cronGuard({ redis = new Redis(process.env.REDIS_URL), onError = console.error } = {}) {
  const me = `${os.hostname()}:${process.pid}`;

  async function claim(name, plannedAt, ttl) {
    const key = `cron:${name}:${plannedAt}`;
    const token = `${me}:${crypto.randomBytes(12).toString('hex')}`;
    const reply = await redis.set(key, token, 'PX', ttl, 'NX');
    if (reply === 'OK') return true;
    // After a reconnect the command may have been sent twice.
    return (await redis.get(key)) === token;
  }

  function schedule(name, interval, job, { claimTtl = Math.max(3600000, interval * 3) } = {}) {
    let timer = null;
    let stopped = false;
    let last = 0;
    const running = new Set();

    function plan() {
      if (stopped) return;
      const now = Date.now();
      const next = Math.max(Math.floor(now / interval) * interval + interval, last + interval);
      timer = setTimeout(tick, next - now, next);
    }

    function tick(plannedAt) {
      const early = plannedAt - Date.now();
      if (early > 0) {
        timer = setTimeout(tick, early, plannedAt);
        return;
      }
      last = plannedAt;
      plan();
      // Too late to be sure that the claim of another machine is still there.
      if (-early > claimTtl / 2) return;

      const run = claim(name, plannedAt, claimTtl)
        .then((won) => (won ? job(new Date(plannedAt)) : undefined))
        .catch((err) => onError(`cron ${name} @ ${new Date(plannedAt).toISOString()}`, err))
        .finally(() => running.delete(run));
      running.add(run);
    }

    plan();

    return async function stop() {
      stopped = true;
      clearTimeout(timer);
      await Promise.all(running);
    };
  }

  return { schedule };
}

module.exports = { cronGuard };

if (require.main === module) {
  const { schedule } = cronGuard();
  const stop = schedule('hello', 60000, async (at) => {
    console.log('tick of', at.toISOString());
  });
  process.once('SIGTERM', () => stop().then(() => process.exit(0)));
}
