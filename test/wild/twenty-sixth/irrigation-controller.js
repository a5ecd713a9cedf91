import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const KEY = 'farm:irrigation:leader';
const TTL_MS = 15_000;
const TICK_MS = 5_000;

const RENEW = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return 0`;

const RESIGN = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0`;

// One controller box stands in each pump house; only the leader may dose.
export class Leadership {
  #id = randomUUID();
  #leading = false;
  #timer;

  constructor(client, log = console) {
    this.client = client;
    this.log = log;
  }

  get leading() {
    return this.#leading;
  }

  async start() {
    await this.#tick();
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  async stop() {
    clearInterval(this.#timer);
    this.#leading = false;
    await this.client.eval(RESIGN, { keys: [KEY], arguments: [this.#id] });
  }

  async #tick() {
    try {
      if (this.#leading) {
        const kept = await this.client.eval(RENEW, { keys: [KEY], arguments: [this.#id, String(TTL_MS)] });
        if (kept !== 1) {
          this.#leading = false;
          this.log.info('irrigation: lost leadership');
        }
        return;
      }
      const reply = await this.client.set(KEY, this.#id, { NX: true, PX: TTL_MS });
      if (reply === 'OK') {
        this.#leading = true;
        this.log.info('irrigation: now leading');
      }
    } catch (err) {
      // the uplink in the valley drops every now and then
      this.log.warn(`irrigation: election tick failed: ${err.message}`);
    }
  }
}

export async function runController({ valves, waterBook, log = console }) {
  const client = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
  client.on('error', (err) => log.warn(`redis: ${err.message}`));
  await client.connect();

  const leadership = new Leadership(client, log);
  await leadership.start();

  let stopping = false;

  async function round() {
    if (!leadership.leading) return;
    // the water book is the farm's database, reached over the local network
    for (const plot of await waterBook.duePlots(new Date())) {
      if (stopping || !leadership.leading) return;
      if (!(await waterBook.isDue(plot.id, new Date()))) continue;
      const litres = await valves.dose(plot.valve, plot.litres);
      await waterBook.append({ plot: plot.id, litres, at: new Date().toISOString() });
    }
  }

  const loop = (async () => {
    while (!stopping) {
      await round().catch((err) => log.error(`round failed: ${err.message}`));
      await sleep(20_000);
    }
  })();

  return async () => {
    stopping = true;
    await loop;
    await leadership.stop();
    await client.quit();
  };
}
