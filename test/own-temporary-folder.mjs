// Gives a run of tests a temporary folder of its own, and removes it with all that the tests left there.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PREFIX = 'lockstep-tests-';
/** What tsx has made of sources, which it keeps in the temporary folder: without it, each run would make all of that again. */
const TRANSFORMED = fileURLToPath(new URL('../node_modules/.cache/tsx', import.meta.url));

export function setup() {
  // Vitest calls this for each of its projects.
  if (tmpdir().includes(PREFIX)) return;
  process.env.TMPDIR = mkdtempSync(join(tmpdir(), PREFIX));
  mkdirSync(TRANSFORMED, { recursive: true });
  const { geteuid = () => userInfo().username } = process;
  symlinkSync(TRANSFORMED, join(tmpdir(), `tsx-${geteuid()}`), 'junction');
}

export function teardown() {
  rmSync(tmpdir(), { recursive: true, force: true });
}
