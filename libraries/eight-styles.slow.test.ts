import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { Redlock } from 'lockstep-redlock';
import { expect, it } from 'vitest';
import type { MakeLock } from './lock-under-test.js';
import { EIGHT_STYLES } from './testing/clients/eight-styles.js';
import { expectSafe } from './testing.js';

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));

it.each(EIGHT_STYLES)('a right lock passes: $style', async ({ make }) => {
  const { claims } = await expectSafe(make, { runs: 60, reportTo });
  expect(claims).toBeGreaterThan(150);
});

it('passes the lock of this project, made as its users make it', async () => {
  const make: MakeLock = ({ addresses }) => {
    const nodes = addresses.map(({ url }) => new Redis(url));
    for (const node of nodes) node.on('error', () => {});
    const redlock = new Redlock(nodes);
    return { acquire: (resource, ttlMs) => redlock.acquire(resource, ttlMs) };
  };
  const { claims } = await expectSafe(make, { runs: 100, reportTo });
  expect(claims).toBeGreaterThan(500);
});
