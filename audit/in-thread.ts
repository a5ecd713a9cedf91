import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { type Kept, type KeptLimits, keptThread } from '../libraries/runtime/kept-thread.js';
import { InputError } from '../scenarios/input-error.js';
import { auditFile, type Tell } from './audit.js';
import { NoLockError } from './refusal.js';
import type { AuditPlan, AuditResult } from './result.js';

const LOOK_MS = 250;
/** A lock that has not let go of its thread for this long never will. */
const LIMITS: KeptLimits = { busyMs: 12_000, waitingMs: 60_000, tickMs: LOOK_MS };
const SENTENCES: Readonly<Record<Kept, string>> = {
  loops: `goes round in a loop that waits for nothing: it has used its thread for ${LIMITS.busyMs / 1000} s, so that its audit was ended`,
  waits: `has kept its thread waiting for ${LIMITS.waitingMs / 1000} s, so that its audit was ended`,
};
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
    let lookAt: (() => Kept | null) | null = null;
    let stopMs = 0;
    const look = setInterval(() => {
      const kept = lookAt?.() ?? null;
      stopMs = signal.aborted ? stopMs + LOOK_MS : 0;
      if (kept !== null) over(() => reject(new InputError(`${basename(plan.path)} ${SENTENCES[kept]}`)));
      else if (stopMs >= STOP_MS)
        over(() => reject(new InputError('the audit was interrupted before it had found anything')));
    }, LOOK_MS);
    const over = (then: () => void): void => {
      clearInterval(look);
      then();
    };
    worker.on('message', (message: Message) => {
      if (message.type === 'beats') lookAt = keptThread(message.beats, LIMITS);
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
