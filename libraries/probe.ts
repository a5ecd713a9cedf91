import { type AsyncHook, createHook } from 'node:async_hooks';
import { as, current } from './runtime/owner.js';
import { UnsupportedClient } from './session.js';

/** What a simulated process may create: everything else waits for something real. */
const HARMLESS = /^(PROMISE|TickObject|Microtask|RANDOM|bound-anonymous-fn|AsyncResource)/;

const CAPTURED: Readonly<Record<string, string>> = {
  Timeout: 'setTimeout, setInterval or AbortSignal.timeout',
  Immediate: 'setImmediate',
};

/**
 * Watches for what the dispatchers cannot see: a native timer that the client had taken before they were there, a socket,
 * a file. It costs time, and so watches one case only.
 */
export class Probe {
  private readonly hook: AsyncHook;
  private found: string | null = null;

  constructor() {
    this.hook = createHook({
      init: (_id, type) => {
        const { owner } = current;
        if (owner === null || this.found !== null || HARMLESS.test(type)) return;
        this.found = as(null, () => sentence(owner.name, type));
      },
    }).enable();
  }

  /** Throws an {@link UnsupportedClient} if there was anything. */
  check(): void {
    if (this.found === null) return;
    this.stop();
    throw new UnsupportedClient(this.found);
  }

  stop(): void {
    this.hook.disable();
  }
}

function sentence(process: string, type: string): string {
  const captured = CAPTURED[type];
  if (captured !== undefined) {
    return (
      `the client has called the native ${captured} (in ${process}): it had taken it before the dispatchers were there. ` +
      'Import lockstep/testing before the client.'
    );
  }
  return `the client waits for something real, ${type} (in ${process}): it may use its nodes and timers only.`;
}
