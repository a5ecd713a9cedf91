import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { InputError } from '../scenarios/input-error.js';
import { type AuditPlan, type AuditResult, auditFile, type Tell } from './audit.js';
import { NoLockError } from './refusal.js';

/** A lock that has not let go of its thread for this long never will, ms of the processor: a busy machine is no endless loop. */
const STUCK_MS = 12_000;
/** The same by the clock, for what waits in its thread. */
const WAITING_MS = 60_000;
const LOOPS = `goes round in a loop that waits for nothing: it has used its thread for ${STUCK_MS / 1000} s, so that its audit was ended`;
const WAITS = `has kept its thread waiting for ${WAITING_MS / 1000} s, so that its audit was ended`;
const LOOK_MS = 250;
/** An audit that was asked to stop has this long for it, ms. */
const STOP_MS = 5_000;

const ERRORS = { 'no-lock': NoLockError, input: InputError, bug: Error };

type Message =
  | { readonly type: 'beats'; readonly beats: Int32Array }
  | { readonly type: 'news'; readonly news: Parameters<Tell>[0] }
  | { readonly type: 'result'; readonly result: AuditResult }
  | { readonly type: 'error'; readonly message: string; readonly stack?: string; readonly kind: keyof typeof ERRORS };

const WORKER = fileURLToPath(new URL('./worker.js', import.meta.url));

/**
 * Audits in a thread of its own, which is ended where the lock keeps it for good.
 *
 * @throws InputError in one sentence for a file that cannot be audited.
 */
export async function auditInThread(plan: AuditPlan, tell: Tell, signal: AbortSignal): Promise<AuditResult> {
  // From the source there is nothing that a thread could load.
  if (!existsSync(WORKER)) return auditFile(plan, tell, () => signal.aborted);
  const stop = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(WORKER, { workerData: { plan, stop }, stdout: true, stderr: true });
  const end = (): void => {
    Atomics.store(stop, 0, 1);
  };
  signal.addEventListener('abort', end, { once: true });
  try {
    return await resultOf(worker, plan, tell, signal);
  } finally {
    signal.removeEventListener('abort', end);
    await worker.terminate();
  }
}

function resultOf(worker: Worker, plan: AuditPlan, tell: Tell, signal: AbortSignal): Promise<AuditResult> {
  return new Promise((resolve, reject) => {
    let beats: Int32Array | null = null;
    let [last, busyMs, sinceMs, stopMs] = [-1, 0, 0, 0];
    let before = process.cpuUsage();
    const look = setInterval(() => {
      const now = beats === null ? -1 : Atomics.load(beats, 0);
      const isAway = beats === null || Atomics.load(beats, 1) === 0;
      const { user, system } = process.cpuUsage(before);
      before = process.cpuUsage();
      const isStuck = now === last && !isAway;
      sinceMs = isStuck ? sinceMs + LOOK_MS : 0;
      busyMs = isStuck ? busyMs + Math.min(LOOK_MS, (user + system) / 1000) : 0;
      last = now;
      stopMs = signal.aborted ? stopMs + LOOK_MS : 0;
      if (busyMs >= STUCK_MS) over(() => reject(new InputError(`${basename(plan.path)} ${LOOPS}`)));
      else if (sinceMs >= WAITING_MS) over(() => reject(new InputError(`${basename(plan.path)} ${WAITS}`)));
      else if (stopMs >= STOP_MS)
        over(() => reject(new InputError('the audit was interrupted before it had found anything')));
    }, LOOK_MS);
    const over = (then: () => void): void => {
      clearInterval(look);
      then();
    };
    worker.on('message', (message: Message) => {
      if (message.type === 'beats') beats = message.beats;
      else if (message.type === 'news') tell(message.news);
      else if (message.type === 'result') over(() => resolve(message.result));
      else over(() => reject(errorOf(message)));
    });
    worker.on('error', (error) => over(() => reject(error)));
    worker.on('exit', () =>
      over(() => reject(new InputError(`${basename(plan.path)} ended the thread that it was audited in`))),
    );
  });
}

function errorOf({ message, stack, kind }: Extract<Message, { readonly type: 'error' }>): Error {
  const error = new ERRORS[kind](message);
  if (stack !== undefined) error.stack = stack;
  return error;
}
