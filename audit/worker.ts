import { parentPort, workerData } from 'node:worker_threads';
import { watchdog } from '../libraries/runtime/watchdog.js';
import { InputError } from '../scenarios/input-error.js';
import { auditFile } from './audit.js';
import { NoLockError } from './refusal.js';
import type { AuditPlan } from './result.js';

/*
 * An audit in a thread of its own: its author's code may never let go of it.
 */

const { plan, stop } = workerData as { readonly plan: AuditPlan; readonly stop: Int32Array };

parentPort?.postMessage({ type: 'beats', beats: watchdog.shared });
try {
  const result = await auditFile(
    plan,
    (news) => parentPort?.postMessage({ type: 'news', news }),
    () => Atomics.load(stop, 0) !== 0,
  );
  parentPort?.postMessage({ type: 'result', result });
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  const stack = error instanceof Error ? error.stack : undefined;
  const kind = error instanceof NoLockError ? 'no-lock' : error instanceof InputError ? 'input' : 'bug';
  parentPort?.postMessage({ type: 'error', message, stack, kind });
}
