// Gives a run of tests a temporary folder of its own, and removes it with all that the tests left there.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PREFIX = 'lockstep-tests-';

export function setup() {
  // Vitest calls this for each of its projects.
  if (!tmpdir().includes(PREFIX)) process.env.TMPDIR = mkdtempSync(join(tmpdir(), PREFIX));
}

export function teardown() {
  rmSync(tmpdir(), { recursive: true, force: true });
}
