import { AsyncLocalStorage } from 'node:async_hooks';
import { current } from './owner.js';

/**
 * Notes which `AsyncLocalStorage`s simulated processes use from here on. Until each is disabled, Node runs hooks for every
 * promise and copies the store of every storage to it, so that runs take longer the more there were before. Those that the
 * program around them uses already are left alone.
 *
 * @returns Ends it, and turns off those that were used.
 */
export function noteStorages(): () => void {
  const used = new Set<AsyncLocalStorage<unknown>>();
  const { prototype } = AsyncLocalStorage;
  const before = { run: prototype.run, enterWith: prototype.enterWith };
  const note = (storage: AsyncLocalStorage<unknown>): void => {
    if (current.owner !== null && Reflect.get(storage, 'enabled') !== true) used.add(storage);
  };
  prototype.run = function (this: AsyncLocalStorage<unknown>, ...given: Parameters<typeof before.run>): unknown {
    note(this);
    return before.run.apply(this, given);
  } as typeof before.run;
  prototype.enterWith = function (this: AsyncLocalStorage<unknown>, store: unknown): void {
    note(this);
    before.enterWith.call(this, store);
  };
  return () => {
    Object.assign(prototype, before);
    for (const storage of used) storage.disable();
  };
}
