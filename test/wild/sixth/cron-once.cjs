'use strict';

/**
 * Every replica runs the same crontab. This makes sure that only one of them does the work
 * of a given tick.
 *
 *   const { onceFor } = require('./cron-once.cjs');
 *   schedule.scheduleJob('0 * * * *', onceFor(redis, 'send-reminders', sendReminders));
 *
 * node-schedule hands the planned time to the job. It is the same on all machines, whatever
 * their clocks say at the moment the job starts.
 */
function onceFor(redis, name, job, { keepSeconds = 2 * 24 * 60 * 60, log = console } = {}) {
  return async function tick(fireDate) {
    const key = `cron:${name}:${fireDate.toISOString()}`;

    let claimed;
    try {
      claimed = await redis.set(key, process.env.HOSTNAME || 'unknown', 'EX', keepSeconds, 'NX');
    } catch (err) {
      // Better no reminder than two.
      log.error(`cron ${name}: skipped, redis said ${err.message}`);
      return false;
    }

    if (claimed !== 'OK') {
      log.debug(`cron ${name}: ${fireDate.toISOString()} is done elsewhere`);
      return false;
    }

    // The key is never deleted: a replica that is late must still find it.
    try {
      await job(fireDate);
    } catch (err) {
      log.error(`cron ${name}: failed`, err);
    }
    return true;
  };
}

module.exports = { onceFor };
