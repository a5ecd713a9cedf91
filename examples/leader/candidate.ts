import { setTimeout as sleep } from 'node:timers/promises';
import { Redlock } from 'lockstep-redlock';
import { runFor } from './leader.js';

/*
 * A candidate as a process of its own, for the test: `candidate.ts <name> <role> <ttlMs> <urls>`. It tells its parent what it
 * writes as a leader, until it is told to stop; then it tells what its lock has recorded.
 */

const [name = '', role = '', ttl = '', urls = ''] = process.argv.slice(2);
const redlock = new Redlock(urls.split(','), { fencing: true, retryDelay: 50, retryJitter: 25, nodeTimeoutMs: 300 });
const recording = redlock.record({ client: name });
const stop = new AbortController();
process.on('message', () => stop.abort());
process.on('disconnect', () => process.exit());
await runFor(
  {
    name: role,
    ttlMs: Number(ttl),
    lead: async (signal, token) => {
      while (!signal.aborted) {
        process.send?.({ token });
        await sleep(5);
      }
    },
  },
  redlock,
  stop.signal,
);
process.send?.({ history: recording.history() });
await redlock.quit();
process.disconnect();
