import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { expectSafe } from '../testing.js';
import { HandleLock } from './clients/right-locks.js';
import { WrongLock } from './clients/wrong-lock.js';

const reportTo = tmpdir();

test('never two holders', () =>
  expectSafe(({ nodes }) => new HandleLock(nodes), { faults: { crash: 1, skewMs: 50 }, runs: 10 }).then(
    () => undefined,
  ));

test('two holders', () =>
  assert.rejects(
    expectSafe(({ nodes }) => new WrongLock(nodes), { faults: { crash: 1, skewMs: 50 }, reportTo }),
    /the lock is not safe/,
  ));
