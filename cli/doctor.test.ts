import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { emptyFolder, lockstep } from './testing/in-process.js';

interface Doctor {
  readonly ok: boolean;
  readonly findings: readonly { readonly name: string; readonly found: string | null }[];
}

/** A PATH with these programs and nothing else, each of which says one line of itself. */
function pathWith(programs: Readonly<Record<string, string>>): string {
  const folder = emptyFolder();
  for (const [name, line] of Object.entries(programs)) {
    const file = join(folder, name);
    writeFileSync(file, `#!/bin/sh\necho '${line}'\n`);
    chmodSync(file, 0o755);
  }
  return folder;
}

test('an empty machine lacks much, and is told what that costs; nothing of it is needed', async () => {
  const { code, stdout } = await lockstep(['doctor'], { env: { PATH: emptyFolder() } });
  expect(code).toBe(0);
  expect(stdout).toMatch(/✓ node +Node \d+/);
  expect(stdout).toMatch(/– redis +not found: no bench, no replay --real/);
  expect(stdout).toMatch(/– browser +not found: /);
  expect(stdout).toContain('Everything that is needed is there.');
});

test('what is there is named with its version', async () => {
  const PATH = pathWith({ 'valkey-server': 'Valkey server v=9.9.9', chromium: 'Chromium 1.2', spin: 'Spin Version 6' });
  const { code, stdout } = await lockstep(['doctor', '--json'], { env: { PATH } });
  expect(code).toBe(0);
  const { ok, findings } = JSON.parse(stdout) as Doctor;
  const found = Object.fromEntries(findings.map(({ name, found }) => [name, found]));
  expect(ok).toBe(true);
  expect(found).toMatchObject({
    redis: 'Valkey server v=9.9.9',
    browser: 'Chromium 1.2',
    spin: 'Spin Version 6',
    docker: null,
  });
});

test('what is required and missing is a failure', async () => {
  const env = { PATH: pathWith({ spin: 'Spin Version 6' }), LOCKSTEP_REQUIRE: 'redis,spin' };
  const { code, stdout } = await lockstep(['doctor'], { env });
  expect(code).toBe(2);
  expect(stdout).toMatch(/✗ redis +required, and not found/);
  expect(stdout).toContain('Missing: redis.');
});

test('nodes that are named and cannot be reached are none', async () => {
  const env = { PATH: emptyFolder(), LOCKSTEP_REDIS: 'redis://127.0.0.1:1', LOCKSTEP_REQUIRE: 'redis' };
  expect((await lockstep(['doctor'], { env })).code).toBe(2);
});
