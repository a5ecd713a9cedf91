// Readers-writer lock on one Redis node, from the talk "Locks you did not know you needed".
//
//   many readers  XOR  one writer
//
//   rw:<name>:w    string, token of the writer           (SET NX PX)
//   rw:<name>:r    sorted set, reader token -> end time  (dead readers fall out by themselves)
//
// A writer first puts up its flag, which keeps new readers out, and then waits for the readers
// that are inside. So writers do not starve.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const LEASE = 15_000;
// The callback is told to stop this long before the lease ends. That is plenty for the clocks of
// our machines, which NTP keeps within a few milliseconds of each other.
const MARGIN = 3_000;

const DROP_FLAG = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export class LockTimeout extends Error {}

export async function connect(url = process.env.REDIS_URL) {
  const client = createClient({ url });
  client.on('error', (err) => console.error('redis', err));
  await client.connect();
  return new RwLock(client);
}

export class RwLock {
  constructor(client) {
    this.client = client;
  }

  async read(name, fn, { timeout = 10_000 } = {}) {
    const token = randomUUID();
    const giveUp = Date.now() + timeout;

    while (await this.client.exists(`rw:${name}:w`)) {
      if (Date.now() > giveUp) throw new LockTimeout(`read ${name}`);
      await sleep(20 + Math.random() * 30);
    }
    const since = Date.now();
    await this.client.zAdd(`rw:${name}:r`, { score: since + LEASE, value: token });

    try {
      return await fn(this.#budget(since));
    } finally {
      await this.client.zRem(`rw:${name}:r`, token).catch((err) => console.warn('reader left to expire', err));
    }
  }

  async write(name, fn, { timeout = 10_000 } = {}) {
    const token = randomUUID();
    const flag = `rw:${name}:w`;
    const giveUp = Date.now() + timeout;
    let since;

    try {
      for (;;) {
        since = Date.now();
        if ((await this.client.set(flag, token, { NX: true, PX: LEASE })) === 'OK') break;
        if (since > giveUp) throw new LockTimeout(`write ${name}`);
        await sleep(20 + Math.random() * 30);
      }

      for (;;) {
        await this.client.zRemRangeByScore(`rw:${name}:r`, '-inf', Date.now());
        if ((await this.client.zCard(`rw:${name}:r`)) === 0) break;
        if (Date.now() > since + LEASE / 2) throw new LockTimeout(`readers in ${name} do not leave`);
        await sleep(20);
      }

      return await fn(this.#budget(since));
    } finally {
      await this.client
        .eval(DROP_FLAG, { keys: [flag], arguments: [token] })
        .catch((err) => console.warn('writer flag left to expire', err));
    }
  }

  // Pass the signal on to whatever does the I/O in the callback.
  #budget(since) {
    return AbortSignal.timeout(Math.max(0, since + LEASE - MARGIN - Date.now()));
  }
}
