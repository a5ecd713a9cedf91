import Client from 'ioredis';
import Redlock from 'redlock4';

const servers = (process.env.REDLOCK_SERVERS ?? 'localhost:6379').split(',').map((server) => {
  const [host, port] = server.split(':');
  const client = new Client({ host, port: Number(port ?? 6379), commandTimeout: 500, maxRetriesPerRequest: 0 });
  client.on('error', () => {});
  return client;
});

// No retries in the library: each attempt below is a lock of its own, with its own value.
const redlock = new Redlock(servers, { retryCount: 0, driftFactor: 0.01 });
redlock.on('clientError', () => {});

const ATTEMPTS = 5;

/**
 * Books under the lock of an account. `book` gets a function that tells how many milliseconds are left, and has to stop
 * when it says zero.
 */
export async function withAccount(account, ttl, book) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    let lock;
    try {
      lock = await redlock.lock(`ledger:${account}`, ttl);
    } catch {
      await new Promise((done) => setTimeout(done, 100 + Math.floor(Math.random() * 150)));
      continue;
    }
    const { expiration } = lock;
    try {
      return await book(() => Math.max(0, expiration - Date.now()));
    } finally {
      await lock.unlock().catch(() => {});
    }
  }
  throw new Error(`account ${account} is locked`);
}
