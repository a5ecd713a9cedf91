import { randomUUID } from 'node:crypto';

const LEASE_MS = 30_000;
const HEARTBEAT_MS = 5_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

/**
 * Leases of transcoding jobs.
 *
 *   const jobs = transcodeJobs(await createClient({ url: process.env.REDIS_URL }).connect());
 *   await jobs.work(job.id, transcode);
 */
export function transcodeJobs(client) {
  const leaseKey = (jobId) => `transcode:lease:${jobId}`;

  async function claim(jobId) {
    const token = randomUUID();
    const reply = await client.set(leaseKey(jobId), token, { NX: true, PX: LEASE_MS });
    return reply === 'OK' ? token : null;
  }

  // Gives us another LEASE_MS. False when there is no lease any more.
  async function heartbeat(jobId) {
    const renewed = await client.pExpire(leaseKey(jobId), LEASE_MS);
    return renewed === 1;
  }

  async function release(jobId, token) {
    await client.eval(RELEASE, { keys: [leaseKey(jobId)], arguments: [token] });
  }

  /**
   * Takes a job if nobody has it, and keeps the lease while `transcode` is at work.
   * `transcode` is given a signal that is aborted when the lease is lost.
   */
  async function work(jobId, transcode) {
    let lastBeat = performance.now();
    const token = await claim(jobId);
    if (!token) return false;

    const abort = new AbortController();

    const timer = setInterval(async () => {
      const sentAt = performance.now();
      if (sentAt - lastBeat >= LEASE_MS - 2 * HEARTBEAT_MS) {
        abort.abort(new Error('no heartbeat got through'));
        return;
      }
      try {
        if (await heartbeat(jobId)) lastBeat = sentAt;
        else abort.abort(new Error('lease lost'));
      } catch (err) {
        console.warn(`heartbeat of ${jobId} failed: ${err.message}`);
      }
    }, HEARTBEAT_MS);

    try {
      await transcode(jobId, abort.signal);
      return !abort.signal.aborted;
    } finally {
      clearInterval(timer);
      await release(jobId, token);
    }
  }

  return { claim, heartbeat, release, work };
}
