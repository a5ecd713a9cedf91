import { getEventListeners } from 'node:events';
import { withoutStack } from './without-stack.js';

/**
 * The signal of `AbortSignal.timeout` in a simulated process. Clients make one for each command, and nearly all of them abort
 * long after anybody has listened: its error is made when somebody asks for it, and its event when somebody listens.
 */
export class TimeoutSignal extends EventTarget {
  #aborted = false;
  #reason: DOMException | undefined;

  /** Itself: its prototype has that of `AbortSignal` behind it. */
  get asSignal(): AbortSignal {
    return this as unknown as AbortSignal;
  }

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): DOMException | undefined {
    if (this.#aborted) this.#reason ??= timeoutError();
    return this.#reason;
  }

  throwIfAborted(): void {
    if (this.#aborted) throw this.reason;
  }

  /** The time is over. */
  timeOut(): void {
    this.#aborted = true;
    if (getEventListeners(this, 'abort').length > 0) this.dispatchEvent(new Event('abort'));
  }
}

/**
 * A new one. An `AbortSignal` cannot be constructed, and so this is none by its class. Node loads that class where it is first
 * asked for, which is not for an import to do.
 */
export function timeoutSignal(): TimeoutSignal {
  if (TimeoutSignal.prototype.constructor !== AbortSignal) {
    Object.setPrototypeOf(TimeoutSignal.prototype, AbortSignal.prototype);
    Object.defineProperty(TimeoutSignal.prototype, 'constructor', {
      value: AbortSignal,
      configurable: true,
      writable: true,
    });
  }
  return new TimeoutSignal();
}

/** The same as a signal of Node, for what reads more of it than its face. */
export function nativeOf(signal: AbortSignal): AbortSignal {
  if (!(signal instanceof TimeoutSignal)) return signal;
  const controller = new AbortController();
  const abort = (): void => controller.abort(signal.reason);
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort, { once: true });
  return controller.signal;
}

function timeoutError(): DOMException {
  return withoutStack(() => new DOMException('The operation was aborted due to timeout', 'TimeoutError'));
}
