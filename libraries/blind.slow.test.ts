import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { RIGHT_LOCKS } from './testing/blind/right.js';
import { verdictOn } from './testing/blind/verdict.js';
import { WRONG_LOCKS } from './testing/blind/wrong.js';

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));

it.each(RIGHT_LOCKS)('a right lock passes the default call: $style', async ({ make }) => {
  expect(await verdictOn(make, reportTo)).toBe('passed');
});

it.each(WRONG_LOCKS)('a wrong lock does not: $defect', async ({ make, kinds }) => {
  expect(kinds).toContain(await verdictOn(make, reportTo));
});
