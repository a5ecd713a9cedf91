import { setTimeout as sleep } from 'node:timers/promises';
import { type AnyClient, LockError, Redlock } from 'lockstep-redlock';
import { openClient } from '../client-libraries.js';
import { openHistory, type RecordedLock, Recorder } from '../history/recorder.js';
import { type Draw, streamOf } from './plan.js';
import { RestBridge } from './rest-bridge.js';
import type { ChaosClient, ClientConfig, ClientReport } from './types.js';

/*
 * A client process of a chaos run: takes and releases locks as real programs do, records what happens, and tells
 * its parent how it fares, until it is told to stop or its parent is gone.
 */

const REPORT_MS = 300;
/** Writes are left out when less validity is left than this, ms. */
const GUARD_MS = 20;

class WorkingClient {
  readonly #orders: ClientConfig;
  readonly #recorder: Recorder;
  #report: ClientReport = { calls: 0, acquired: 0, longestCallMs: 0 };
  readonly #draw: Draw;
  #stopping = false;

  constructor(orders: ClientConfig, recorder: Recorder) {
    this.#orders = orders;
    this.#recorder = recorder;
    this.#draw = streamOf(orders.seed, `client ${orders.client}`);
  }

  stop(): void {
    this.#stopping = true;
  }

  tell(): void {
    if (process.connected) process.send?.(this.#report);
  }

  async work(): Promise<void> {
    const { resources, ttlMs } = this.#orders;
    while (!this.#stopping) {
      const one = resources[Math.floor(this.#draw() * resources.length)] ?? 'a';
      const another = resources[Math.floor(this.#draw() * resources.length)] ?? 'a';
      const wanted = this.#draw() < 0.1 ? [...new Set([one, another])].sort() : [one];
      const lock = await this.#timed(() => this.#recorder.acquire(wanted, ttlMs));
      if (lock === null) continue;
      this.#report = { ...this.#report, acquired: this.#report.acquired + 1 };
      await this.#hold(lock, wanted);
    }
  }

  /** Holds a lock for a moment, for a while, or until its validity has ended, and writes while it is valid. */
  async #hold(lock: RecordedLock, resources: readonly string[]): Promise<void> {
    const { ttlMs } = this.#orders;
    const kind = this.#draw();
    const parts = 1 + Math.floor(this.#draw() * 3);
    const holdMs = kind < 0.85 ? this.#draw() * 10 : kind < 0.95 ? this.#draw() * ttlMs : ttlMs * 1.1;
    for (let part = 0; part < parts && !this.#stopping; part++) {
      await sleep(holdMs / parts);
      if (lock.lock.remaining() > GUARD_MS) for (const resource of resources) lock.wrote(resource);
      if (this.#draw() < 0.2) await this.#timed(() => lock.extend(ttlMs));
    }
    await this.#timed(() => lock.release());
  }

  /** What the call resolves with, or `null` if it fails as locks may fail. */
  async #timed<T>(call: () => Promise<T>): Promise<T | null> {
    const begun = performance.now();
    try {
      return await call();
    } catch (error) {
      if (error instanceof LockError) return null;
      throw error;
    } finally {
      const { calls, longestCallMs, acquired } = this.#report;
      const tookMs = performance.now() - begun;
      this.#report = { acquired, calls: calls + 1, longestCallMs: Math.max(longestCallMs, tookMs) };
    }
  }
}

/** A client of one node. REST goes through a bridge in this process, which reaches the node on the same way as others. */
async function openNode(library: ChaosClient, url: string): Promise<{ readonly client: AnyClient; close(): void }> {
  if (library !== 'upstash') return openClient(library, url);
  const bridge = await RestBridge.open(url, 'the-token');
  return { client: { url: bridge.url, token: bridge.token }, close: () => bridge.close() };
}

async function main(orders: ClientConfig): Promise<void> {
  // Ctrl-C in a terminal reaches the whole group; the parent decides when this process ends.
  process.on('SIGINT', () => {});
  process.on('disconnect', () => process.exit(0));
  const made = await Promise.all(orders.urls.map((url) => openNode(orders.library, url)));
  const clients = made.map(({ client }) => client);
  using file = openHistory(orders.historyPath);
  const redlock = new Redlock(clients, { retryCount: 4, retryDelay: 40, retryJitter: 30 });
  const recorder = new Recorder(redlock, { client: orders.client, append: file.append });
  const working = new WorkingClient(orders, recorder);
  process.on('message', () => working.stop());
  const telling = setInterval(() => working.tell(), REPORT_MS);
  try {
    await working.work();
  } finally {
    clearInterval(telling);
    await redlock.quit();
    for (const { close } of made) close();
  }
  working.tell();
  // From here on nothing holds the process, or it is stuck.
  process.disconnect();
}

await main(JSON.parse(process.argv[2] ?? ''));
