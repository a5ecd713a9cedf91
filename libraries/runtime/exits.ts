import { current, type ProcessContext } from './owner.js';
import { ofThread } from './thread.js';

/** Ways in which a program ends its process, or all of a thread. */
const EXITS = ['exit', 'reallyExit', 'abort', 'kill'] as const;

const dispatchers = ofThread('exits', () => new WeakSet<object>());

/**
 * Has a simulated process that ends the real one, or another, be refused by name instead. Test runners put their own
 * `process.exit` in its place, and take it away after each file: this goes in front of whatever is there by now.
 */
export function installExits(): void {
  const methods = process as unknown as Record<string, (...args: unknown[]) => unknown>;
  for (const name of EXITS) {
    const native = methods[name];
    if (native === undefined || dispatchers.has(native)) continue;
    const value = (...args: unknown[]): unknown => {
      const { owner } = current;
      if (owner === null) return native.apply(process, args);
      if (name === 'kill' && args[1] === 0) return isAlive(owner, args[0]);
      if (name === 'reallyExit') stayAlive();
      throw owner.refuses(`calls process.${name}, which would end the process that the test runs in`);
    };
    dispatchers.add(value);
    Object.defineProperty(process, name, { value, configurable: true, writable: true });
  }
}

/**
 * Gives what puts the exit code of the real process back: that of a simulated one means nothing to it. Node lets nobody put
 * something else in the place of `process.exitCode`.
 */
export function keepExitCode(): () => void {
  const { exitCode } = process;
  return () => {
    process.exitCode = exitCode;
  };
}

/** What signal 0 says, which ends nothing: a simulated process is alone on its machine. */
function isAlive({ pid }: ProcessContext, asked: unknown): true {
  if (Number(asked) === pid) return true;
  throw Object.assign(new Error('kill ESRCH'), { errno: -3, code: 'ESRCH', syscall: 'kill' });
}

/** A native `exit` that was taken before the dispatchers has marked the process as one that ends: no tick would run any more. */
function stayAlive(): void {
  (process as unknown as { _exiting: boolean })._exiting = false;
  process.exitCode = undefined;
}
