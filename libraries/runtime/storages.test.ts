import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, it } from 'vitest';
import { as, type ProcessContext } from './owner.js';
import { noteStorages } from './storages.js';

/** A simulated process, of which nothing is asked. */
const PROCESS = {} as ProcessContext;

it.each([
  ['run', (one: AsyncLocalStorage<string>) => one.run('a', () => one.enterWith('b'))],
  ['enterWith', (one: AsyncLocalStorage<string>) => one.enterWith('a')],
] as const)('turns off what simulated processes use by %s, and nothing else', (_, use) => {
  const [own, before, beside] = [0, 1, 2].map(() => new AsyncLocalStorage<string>()) as [
    AsyncLocalStorage<string>,
    AsyncLocalStorage<string>,
    AsyncLocalStorage<string>,
  ];
  before.enterWith('before');
  const turnOff = noteStorages();
  as(PROCESS, () => {
    use(own);
    before.run('in a process', () => {});
  });
  own.enterWith('used');
  beside.enterWith('beside');
  expect(own.getStore()).toBe('used');
  turnOff();
  expect(own.getStore()).toBeUndefined();
  expect(before.getStore()).toBe('before');
  expect(beside.getStore()).toBe('beside');
  before.disable();
  beside.disable();
});
