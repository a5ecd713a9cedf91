import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { started } from '../campaign/testing/command.js';
import { emptyFolder } from '../cli/testing/in-process.js';
import { blocksOf, commandsIn } from './blocks.js';

const TOP = fileURLToPath(new URL('..', import.meta.url));
const SKILL = 'docs/skill/SKILL.md';
/** Fewer than by default: the first is found in the seventeenth. */
const RUNS = ['--runs', '18'];

it('the commands of the skill find a wrong lock, and see that the one in it mends that', async () => {
  const cwd = emptyFolder();
  mkdirSync(join(cwd, 'src'));
  symlinkSync(join(TOP, 'node_modules'), join(cwd, 'node_modules'));
  cpSync(join(TOP, 'audit/testing/locks/blind-delete.ts'), join(cwd, 'src/lock.ts'));
  const blocks = blocksOf(SKILL);
  const [audit = [], replay = [], test = [], ...more] = blocks.flatMap(commandsIn).map(({ argv }) => argv);
  expect(more).toEqual([]);
  const found = await started([...audit, ...RUNS], {}, cwd).end;
  expect(found.code).toBe(1);
  const [{ id, schedule }] = JSON.parse(found.stdout).findings;
  expect(id).toBe('blind-release');
  const again = replay.map((word) => word.replace('SCHEDULE', schedule));
  expect(again).toContain(schedule);
  expect((await started(again, {}, cwd).end).code).toBe(0);
  // The same shape as before, with the release of the lock that is shown.
  const right = blocks.find(({ language }) => language === 'ts')?.text ?? '';
  const pair = `
export async function acquireLock(key: string, ttlMs: number): Promise<string | null> {
  const token = randomUUID();
  return (await redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK' ? token : null;
}
export const releaseLock = (key: string, token: string) => redis.eval(RELEASE, 1, key, token);
`;
  writeFileSync(join(cwd, 'src/lock.ts'), right.replace(/export async function withLock.*$/s, pair));
  expect((await started(again, {}, cwd).end).code).toBe(3);
  writeFileSync(join(cwd, 'src/lock.ts'), right);
  expect(await started([...test, ...RUNS], {}, cwd).end).toMatchObject({
    code: 0,
    stderr: 'lockstep: wrote src/lock.audit.test.ts\n',
  });
});
