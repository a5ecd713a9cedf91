import timers from 'node:timers';
import timersPromises from 'node:timers/promises';
import { promisify } from 'node:util';
import { current, type OwnedTimer } from './owner.js';
import { nativeOf, timeoutSignal } from './timeout-signal.js';

type Callback = (...args: unknown[]) => unknown;

/** Above it, Node takes 1 ms. */
const LONGEST_MS = 2 ** 31 - 1;

/** The delay that Node makes of what it is given, ms. */
function delayOf(delay: unknown): number {
  const ms = Number(delay);
  return ms >= 1 && ms <= LONGEST_MS ? Math.trunc(ms) : 1;
}

/** What a timer function returns inside a simulated process: like Node's `Timeout`, but nothing to keep alive. */
export class SimTimeout {
  private readonly arm: () => OwnedTimer;
  private timer: OwnedTimer;
  private referenced = true;

  constructor(arm: () => OwnedTimer) {
    this.arm = arm;
    this.timer = arm();
  }

  ref(): this {
    this.referenced = true;
    return this;
  }

  unref(): this {
    this.referenced = false;
    return this;
  }

  hasRef(): boolean {
    return this.referenced;
  }

  refresh(): this {
    this.timer.cancel();
    this.timer = this.arm();
    return this;
  }

  close(): this {
    this.timer.cancel();
    return this;
  }

  [Symbol.toPrimitive](): number {
    return this.timer.id;
  }

  [Symbol.dispose](): void {
    this.timer.cancel();
  }
}

function timerFunction(native: (...args: never[]) => unknown, repeat: boolean): Callback {
  return (callback, delay, ...rest) => {
    const { owner } = current;
    if (owner === null) return (native as unknown as Callback)(callback, delay, ...rest);
    checkCallback(callback);
    const call = rest.length === 0 ? (callback as () => void) : () => void callback(...rest);
    const delayMs = delayOf(delay);
    return new SimTimeout(() => owner.setTimer(call, delayMs, repeat));
  };
}

function checkCallback(callback: unknown): asserts callback is Callback {
  if (typeof callback === 'function') return;
  throw Object.assign(new TypeError('The "callback" argument must be of type function.'), {
    code: 'ERR_INVALID_ARG_TYPE',
  });
}

/** Cancels a timer of whichever world it is from. */
function clearFunction(native: (...args: never[]) => unknown): Callback {
  return (timer) => {
    const { owner } = current;
    if (timer instanceof SimTimeout) timer.close();
    else if (owner !== null && (typeof timer === 'number' || typeof timer === 'string')) {
      owner.timerOf(Number(timer))?.cancel();
    } else (native as unknown as Callback)(timer);
    return undefined;
  };
}

interface WaitOptions {
  readonly signal?: AbortSignal;
}

/** `timers/promises`: waits for a timer of the process, unless a signal aborts. */
function wait<T>(begin: (done: () => void) => OwnedTimer, value: T, options: unknown): Promise<T> {
  const signal = (options as WaitOptions | undefined)?.signal;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(abortError(signal));
      return;
    }
    const onAbort = (): void => {
      timer.cancel();
      if (signal !== undefined) reject(abortError(signal));
    };
    const timer = begin(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve(value);
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

function abortError(signal: AbortSignal): Error {
  const error = new Error('The operation was aborted', { cause: signal.reason });
  return Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' });
}

type PromiseTimers = Record<'setTimeout' | 'setImmediate' | 'setInterval', Callback> & {
  scheduler: Record<'wait' | 'yield', Callback>;
};

function installPromises(promises: PromiseTimers): { readonly timeout: Callback; readonly immediate: Callback } {
  const { setTimeout: nativeTimeout, setImmediate: nativeImmediate, setInterval: nativeInterval } = promises;
  const timeout: Callback = (delay, value, options) => {
    const { owner } = current;
    if (owner === null) return nativeTimeout(delay, value, options);
    return wait((done) => owner.setTimer(done, delayOf(delay), false), value, options);
  };
  const immediate: Callback = (value, options) => {
    const { owner } = current;
    if (owner === null) return nativeImmediate(value, options);
    return wait((done) => owner.setImmediate(done), value, options);
  };
  async function* intervalOf(delay: unknown, value: unknown, options: unknown): AsyncGenerator<unknown> {
    for (;;) yield await timeout(delay, value, options);
  }
  promises.setTimeout = timeout;
  promises.setImmediate = immediate;
  promises.setInterval = (delay, value, options) =>
    current.owner === null ? nativeInterval(delay, value, options) : intervalOf(delay, value, options);
  const { scheduler } = promises;
  const { wait: nativeWait, yield: nativeYield } = scheduler;
  const waitFor: Callback = (delay, options) =>
    current.owner === null ? nativeWait.call(scheduler, delay, options) : timeout(delay, undefined, options);
  const yieldNow: Callback = () => (current.owner === null ? nativeYield.call(scheduler) : immediate());
  Object.defineProperty(scheduler, 'wait', { value: waitFor, configurable: true, writable: true });
  Object.defineProperty(scheduler, 'yield', { value: yieldNow, configurable: true, writable: true });
  return { timeout, immediate };
}

/** Puts dispatchers in the place of everything that waits for time. */
export function installTimers(): void {
  const { timeout, immediate } = installPromises(timersPromises as unknown as PromiseTimers);
  const nativeImmediate = globalThis.setImmediate;
  const setTimeoutHere = timerFunction(globalThis.setTimeout, false);
  const setImmediateHere: Callback = (callback, ...rest) => {
    const { owner } = current;
    if (owner === null) return (nativeImmediate as unknown as Callback)(callback, ...rest);
    checkCallback(callback);
    return new SimTimeout(() => owner.setImmediate(() => callback(...rest)));
  };
  Object.defineProperty(setTimeoutHere, promisify.custom, { value: timeout });
  Object.defineProperty(setImmediateHere, promisify.custom, { value: immediate });
  const dispatchers: Record<string, Callback> = {
    setTimeout: setTimeoutHere,
    setInterval: timerFunction(globalThis.setInterval, true),
    setImmediate: setImmediateHere,
    clearTimeout: clearFunction(globalThis.clearTimeout),
    clearInterval: clearFunction(globalThis.clearInterval),
    clearImmediate: clearFunction(globalThis.clearImmediate),
  };
  Object.assign(globalThis, dispatchers);
  Object.assign(timers, dispatchers);
  installAbortTimeout();
}

function installAbortTimeout(): void {
  const native = AbortSignal.timeout.bind(AbortSignal);
  AbortSignal.timeout = (delayMs: number): AbortSignal => {
    const { owner } = current;
    if (owner === null) return native(delayMs);
    const signal = timeoutSignal();
    owner.setTimer(() => signal.timeOut(), delayOf(delayMs), false);
    return signal.asSignal;
  };
  const any = AbortSignal.any.bind(AbortSignal);
  AbortSignal.any = (signals) => any(Array.from(signals, nativeOf));
}
