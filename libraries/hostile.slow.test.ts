import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { lockOf } from './testing/blind/parts.js';
import { ALTERED, HOSTILE } from './testing/hostile.js';
import { expectSafe, type MakeLock } from './testing.js';

// `hostile.js` comes before `testing.js`, so that what it keeps is native.
const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));
const untouched = [process.cwd(), process.exitCode];

/** What is said of a client that does this as it acquires, having stored a key. */
async function saidOf(does: () => unknown): Promise<string> {
  const make: MakeLock = ({ nodes: [node] }) => ({
    async acquire(key, ttlMs) {
      await node.set(key, crypto.randomUUID(), 'PX', ttlMs, 'NX');
      return does();
    },
    release: () => undefined,
  });
  const kinds = ['signal', 'continuity', 'belief'] as const;
  const options = { runs: 2, nodes: 1, faults: {}, kinds, reportTo };
  return expectSafe(make, options).then(
    () => 'nothing',
    (error: Error) => error.message,
  );
}

it.each(HOSTILE)('says what is wrong with a client that does: %s', async (_, does, said) => {
  expect(await saidOf(does)).toMatch(said);
  expect(await saidOf(does)).toMatch(said);
  // Nothing of it is left.
  await new Promise<void>((resolve) => process.nextTick(resolve));
  expect([process.cwd(), process.exitCode]).toEqual(untouched);
});

it.each(ALTERED)('is not misled by a client that alters %s', async (_, alters) => {
  const owners = [Promise.prototype, Array.prototype, Map.prototype, Function.prototype, Object.prototype, console];
  const before = owners.map((owner) => Object.getOwnPropertyDescriptors(owner));
  const make: MakeLock = ({ nodes }) => {
    alters();
    return lockOf(nodes);
  };
  try {
    expect(await expectSafe(make, { runs: 2, reportTo })).toMatchObject({ runs: 2 });
  } finally {
    Reflect.deleteProperty(Object.prototype, 'polluted');
    for (const [i, owner] of owners.entries()) Object.defineProperties(owner, before[i] ?? {});
  }
});
