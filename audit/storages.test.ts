import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, it } from 'vitest';
import { noteStorages } from './storages.js';

it.each([
  ['run', (one: AsyncLocalStorage<string>) => one.run('a', () => one.enterWith('b'))],
  ['enterWith', (one: AsyncLocalStorage<string>) => one.enterWith('a')],
] as const)('turns off what is used by %s, and nothing else', (_, use) => {
  const [own, other] = [new AsyncLocalStorage<string>(), new AsyncLocalStorage<string>()];
  other.enterWith('before');
  const turnOff = noteStorages();
  use(own);
  own.enterWith('used');
  expect(own.getStore()).toBe('used');
  turnOff();
  expect(own.getStore()).toBeUndefined();
  expect(other.getStore()).toBe('before');
  other.disable();
});
