import { readFileSync } from 'node:fs';
import { afterAll, expect } from 'vitest';

/**
 * Files of most projects share a process, so each has to leave it as it found it. One that replaces modules is called
 * `.mock.test.ts`, and has a process of its own.
 */
const MOCKS = /\bvi\.(?:mock|doMock|resetModules)\(/;

const before = surroundings();
const { testPath = '' } = expect.getState();

afterAll(() => {
  const after = surroundings();
  const changed = [...before].filter(([name, value]) => !Object.is(after.get(name), value)).map(([name]) => name);
  const added = [...after.keys()].filter((name) => name.startsWith('process.') && !before.has(name));
  expect([...changed, ...added], `${testPath} leaves behind`).toEqual([]);
  expect(readFileSync(testPath, 'utf8'), 'it replaces modules: name it .mock.test.ts').not.toMatch(MOCKS);
});

/** All that one file could change for the next, by name. */
function surroundings(): Map<string, unknown> {
  const found = new Map<string, unknown>([['process.cwd()', process.cwd()]]);
  for (const [name, value] of Object.entries(process.env)) found.set(`process.env.${name}`, value);
  for (const owner of [globalThis, Date, Math, console, performance, Promise, Object.getPrototypeOf(performance)]) {
    for (const [name, it] of Object.entries(Object.getOwnPropertyDescriptors(owner))) {
      // Some globals of Node are made when they are first asked for.
      if (it.get === undefined) found.set(`${nameOf(owner)}${name}`, it.value);
    }
  }
  return found;
}

function nameOf(owner: object): string {
  return owner === globalThis
    ? ''
    : `${typeof owner === 'function' ? owner.name : Object.prototype.toString.call(owner)}.`;
}
