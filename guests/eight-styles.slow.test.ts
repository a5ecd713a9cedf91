import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { EIGHT_STYLES } from './testing/clients/eight-styles.js';
import { expectSafe } from './testing.js';

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));

it.each(EIGHT_STYLES)('a right lock passes: $style', async ({ make }) => {
  const { claims } = await expectSafe(make, { runs: 60, reportTo });
  expect(claims).toBeGreaterThan(150);
});
