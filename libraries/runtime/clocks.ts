import os from 'node:os';
import { current, type ProcessContext } from './owner.js';

const NS_PER_US = 1000n;
const US_PER_S = 1_000_000;

/** Puts dispatchers in the place of everything that tells the time. */
export function installClocks(): void {
  installDate();
  installHrtime();
  replace(performance, 'now', (native, owner) => (owner === null ? native() : owner.monotonicUs() / 1000));
  replace(process, 'uptime', (native, owner) => (owner === null ? native() : owner.monotonicUs() / US_PER_S));
  // As Linux tells it: hundredths of a second.
  replace(os, 'uptime', (native, owner) => (owner === null ? native() : Math.floor(owner.bootUs() / 10_000) / 100));
}

function replace<K extends string>(
  target: Record<K, () => number>,
  name: K,
  dispatch: (native: () => number, owner: ProcessContext | null) => number,
): void {
  const native = target[name].bind(target);
  const value = (): number => dispatch(native, current.owner);
  Object.defineProperty(target, name, { value, configurable: true, writable: true });
}

function installDate(): void {
  const Native = globalThis.Date;
  const nativeNow = Native.now;
  // In its own place, so that who has taken the class before is dispatched all the same.
  Native.now = () => current.owner?.wallMs() ?? nativeNow();
  globalThis.Date = new Proxy(Native, {
    construct(target, args, newTarget) {
      const { owner } = current;
      return Reflect.construct(target, args.length === 0 && owner !== null ? [owner.wallMs()] : args, newTarget);
    },
    apply(target) {
      const { owner } = current;
      return (owner === null ? new target() : new target(owner.wallMs())).toString();
    },
  });
}

function installHrtime(): void {
  const native = process.hrtime;
  const nativeBigint = native.bigint.bind(native);
  const hrtime = (before?: [number, number]): [number, number] => {
    const { owner } = current;
    if (owner === null) return native(before);
    const us = owner.monotonicUs();
    const now: [number, number] = [Math.floor(us / US_PER_S), (us % US_PER_S) * 1000];
    if (before === undefined) return now;
    const [s, ns] = [now[0] - before[0], now[1] - before[1]];
    return ns < 0 ? [s - 1, ns + 1_000_000_000] : [s, ns];
  };
  const bigint = (): bigint => {
    const { owner } = current;
    return owner === null ? nativeBigint() : BigInt(owner.monotonicUs()) * NS_PER_US;
  };
  process.hrtime = Object.assign(hrtime, { bigint });
}
