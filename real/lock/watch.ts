import { type Channel, channel } from 'node:diagnostics_channel';
import { debuglog } from 'node:util';
import type { LockErrorCode, LockVotes } from './errors.js';

/** What happened to a lock: what a {@link Redlock} emits, and what it publishes on channels. It has no token in it. */
export interface LockNotice {
  /**
   * `contended`: an acquisition failed because of other clients. `failed`: an acquisition or extension failed for another reason.
   * After a failed extension, the lock is held as long as before.
   */
  readonly event: 'acquired' | 'contended' | 'failed' | 'extended' | 'lost' | 'released';
  readonly operation: 'acquire' | 'extend' | 'hold' | 'release';
  readonly resources: readonly string[];
  /** From the call to its outcome, waiting for connections excluded, ms; 0 for `lost`. */
  readonly durationMs: number;
  /** Since the lock was acquired, ms. */
  readonly heldMs: number;
  /** Remaining validity, ms. */
  readonly remainingMs: number;
  /** Attempts to acquire. */
  readonly attempts: number;
  /** Successful extensions so far. */
  readonly extensions: number;
  /** For a release: nodes in `granted` have deleted the key, nodes in `refused` had none. */
  readonly votes: LockVotes;
  /** Why it failed; `null` if it did not. */
  readonly code: LockErrorCode | null;
}

/** The events of locks, for emitters. */
export type LockNotices = { [Event in LockNotice['event']]: [notice: LockNotice] };

const CHANNELS: Readonly<Record<LockNotice['event'], Channel>> = {
  acquired: channel('lockstep-redlock:acquired'),
  contended: channel('lockstep-redlock:contended'),
  failed: channel('lockstep-redlock:failed'),
  extended: channel('lockstep-redlock:extended'),
  lost: channel('lockstep-redlock:lost'),
  released: channel('lockstep-redlock:released'),
};

/** Writes to stderr where NODE_DEBUG has this name. */
const log = debuglog('lockstep-redlock');

interface Emitter {
  listenerCount(event: LockNotice['event']): number;
  emit(event: LockNotice['event'], notice: LockNotice): boolean;
}

/** Tells listeners what happens to locks. Without any it makes nothing. */
export class Watch {
  readonly #emitter: Emitter;

  constructor(emitter: Emitter) {
    this.#emitter = emitter;
  }

  /** Whether anybody wants to know. */
  wants(event: LockNotice['event']): boolean {
    return CHANNELS[event].hasSubscribers || log.enabled || this.#emitter.listenerCount(event) > 0;
  }

  tell(notice: LockNotice): void {
    const { event, resources, durationMs, heldMs, attempts, code } = notice;
    CHANNELS[event].publish(notice);
    if (log.enabled) log('%s %j', event, { resources, durationMs, heldMs, attempts, code: code ?? undefined });
    if (this.#emitter.listenerCount(event) > 0) emitSafely(() => this.#emitter.emit(event, notice));
  }

  /** A node's error, for the log alone. */
  logError(error: Error, node: number): void {
    if (log.enabled) log('n%d %s', node, error.message);
  }
}

/** What a listener throws is thrown where it harms no lock. */
export function emitSafely(emit: () => void): void {
  try {
    emit();
  } catch (thrown) {
    process.nextTick(() => {
      throw thrown;
    });
  }
}
