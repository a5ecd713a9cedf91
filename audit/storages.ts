import { AsyncLocalStorage } from 'node:async_hooks';
import { current } from '../libraries/runtime/owner.js';

/**
 * Notes which `AsyncLocalStorage`s simulated processes use from here on. Each keeps the hooks of promises on until it is told
 * otherwise, so that all that comes after takes up to three times as long. Those of the program around it are left alone.
 *
 * @returns Ends it, and turns off those that were used.
 */
export function noteStorages(): () => void {
  const used = new Set<AsyncLocalStorage<unknown>>();
  const { prototype } = AsyncLocalStorage;
  const before = { run: prototype.run, enterWith: prototype.enterWith };
  prototype.run = function (this: AsyncLocalStorage<unknown>, ...given: Parameters<typeof before.run>): unknown {
    if (current.owner !== null) used.add(this);
    return before.run.apply(this, given);
  } as typeof before.run;
  prototype.enterWith = function (this: AsyncLocalStorage<unknown>, store: unknown): void {
    if (current.owner !== null) used.add(this);
    before.enterWith.call(this, store);
  };
  return () => {
    Object.assign(prototype, before);
    for (const storage of used) storage.disable();
  };
}
