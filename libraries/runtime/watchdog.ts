import { url } from 'node:inspector';
import { Worker } from 'node:worker_threads';
import { type Kept, type KeptLimits, keptThread } from './kept-thread.js';

/** A client that has not let go of its thread for this long never will, ms of the processor. */
const LIMIT_MS = 20_000;

/** In a thread of its own, which goes on while the other is busy. It knows nothing of simulated time. */
const WATCHING = `
const { writeSync } = require('node:fs');
const { workerData } = require('node:worker_threads');
const { beats, limits, sentences } = workerData;
const look = (${keptThread.toString()})(beats, limits);
setInterval(() => {
  const kept = look();
  if (kept === null) return;
  writeSync(2, sentences[kept] + '\\n');
  process.kill(process.pid, 'SIGKILL');
}, limits.tickMs);
`;

/**
 * Ends the process of a test, with a sentence, when a client under test keeps its thread for good: nothing in that thread
 * can do so. A debugger may stop it for as long as it likes.
 */
export class Watchdog {
  private readonly beats = new Int32Array(new SharedArrayBuffer(8));
  private worker: Worker | null = null;
  /** How long the thread may be used, ms of the processor; by the clock, ten times as long. Default 20 s. Read as it starts. */
  limitMs: number;

  constructor(limitMs: number = LIMIT_MS) {
    this.limitMs = limitMs;
  }

  /** @param name - The client, for the sentence. */
  start(name: string): void {
    if (this.worker !== null || url() !== undefined) return;
    const { beats, limitMs } = this;
    const limits: KeptLimits = { busyMs: limitMs, waitingMs: 10 * limitMs, tickMs: Math.min(500, limitMs / 4) };
    const ended = 'A simulated process gets no time while it does, so its test was ended.';
    const sentences: Readonly<Record<Kept, string>> = {
      loops: `${name} has used its thread for ${limits.busyMs / 1000} s: it goes round in a loop that waits for nothing. ${ended}`,
      waits: `${name} has kept its thread waiting for ${limits.waitingMs / 1000} s. ${ended}`,
    };
    const workerData = { beats, limits, sentences };
    this.worker = new Worker(WATCHING, { eval: true, workerData });
    this.worker.unref();
  }

  /** What another thread looks at: how often the client has let go, and whether it has the thread at all. */
  get shared(): Int32Array {
    return this.beats;
  }

  /** The client has let go of the thread, or is about to get it; `isAway` once it will not get it any more. */
  beat(isAway = false): void {
    Atomics.add(this.beats, 0, 1);
    Atomics.store(this.beats, 1, isAway ? 0 : 1);
  }

  stop(): void {
    this.beat(true);
    void this.worker?.terminate();
    this.worker = null;
  }
}

/** Of this thread. */
export const watchdog: Watchdog = new Watchdog();
