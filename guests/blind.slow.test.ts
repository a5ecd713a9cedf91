import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { RIGHT_LOCKS } from './testing/blind/right.js';
import { expectSafe } from './testing.js';

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));

it.each(RIGHT_LOCKS)('a right lock passes: $style', async ({ make }) => {
  expect((await expectSafe(make, { reportTo })).claims).toBeGreaterThan(100);
});
