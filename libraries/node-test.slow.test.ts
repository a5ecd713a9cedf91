import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

it('expectSafe works under node:test', async () => {
  const script = new URL('./testing/with-node-test.ts', import.meta.url).pathname;
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ['--import', 'tsx', '--test', '--test-reporter', 'tap', script]);
  expect(stdout).toMatch(/# pass 2/);
  expect(stdout).toMatch(/# fail 0/);
});
