import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { lockstep, started } from '../campaign/testing/command.js';
import { Exit } from './exit-codes.js';
import { emptyFolder } from './testing/in-process.js';

it('tortures a library in a worker of its own, and says what came of it as one JSON object', async () => {
  const { code, stdout, stderr } = await lockstep(
    'guests',
    ...['--libraries', 'redlock5', '--faults', 'even,small', '--runs', '10', '--no-shrink', '--json'],
  );
  expect([code, stderr]).toEqual([Exit.ok, '']);
  const { schema, rows } = JSON.parse(stdout);
  expect(schema).toBe('lockstep.guests/1');
  expect(rows.map(({ fault, runs }: { fault: string; runs: number }) => [fault, runs])).toEqual([
    ['small', 10],
    ['even', 10],
  ]);
  // A tie among an even number of nodes is never settled.
  expect(rows[1].violations).toBeGreaterThan(0);
}, 120_000);

it('writes each counterexample with the page of its run, and shows it again by the command that it prints', async () => {
  const hunt = started(['guests', '--libraries', 'redlock5', '--faults', 'even', '--runs', '20']);
  const { stdout } = await hunt.end;
  const file = '.lockstep/guests/redlock5-even-hang.json';
  expect(stdout).toContain(`guests --replay ${file} --libraries redlock5\n`);
  const page = readFileSync(join(hunt.cwd, file.replace('.json', '.html')), 'utf8');
  expect(page).toContain('<title>redlock5-even-hang: redlock5, unmodified, in the simulated world</title>');
  const replay = ['guests', '--replay', join(hunt.cwd, file), '--libraries', 'redlock5'];
  const shown = await lockstep(...replay);
  expect(shown).toMatchObject({ code: Exit.violated, stderr: '' });
  expect(shown.stdout).toContain('has not returned for');
  const again = await lockstep(...replay, '--format', 'html');
  expect(again.stdout).toContain('<title>redlock5-even-hang: ');
}, 120_000);

it('takes --open and --format for one schedule only', async () => {
  const { code, stderr } = await lockstep('guests', '--open');
  expect(code).toBe(Exit.usage);
  expect(stderr).toContain('--open and --format are about one schedule');
}, 60_000);

/** Takes whoever answers first for a majority, and deletes whatever key is there. */
const MINE = `import { randomUUID } from 'node:crypto';
export default ({ nodes }) => ({
  async acquire(resource: string, ttlMs: number) {
    const set = (node): Promise<unknown> => node.set(resource, randomUUID(), 'PX', ttlMs, 'NX');
    const replies = await Promise.allSettled(nodes.map(set));
    if (!replies.some((it) => it.status === 'fulfilled' && it.value === 'OK')) return null;
    const release = () => Promise.allSettled(nodes.map((node) => node.del(resource)));
    return { expiresAt: Date.now() + ttlMs, release };
  },
});
`;

it('tortures a lock in a file, and exits as for a violation where it breaks inside the assumptions', async () => {
  const file = join(emptyFolder(), 'my-lock.ts');
  writeFileSync(file, MINE);
  const { end } = started(['guests', '--library', file, '--faults', 'small', '--runs', '20', '--no-shrink', '--json']);
  const { code, stdout, stderr } = await end;
  expect([code, stderr]).toEqual([Exit.violated, '']);
  expect(JSON.parse(stdout).rows[0]).toMatchObject({ library: 'my-lock' });
}, 120_000);

it('does not pass a lock that is never acquired', async () => {
  const file = join(emptyFolder(), 'idle.mjs');
  writeFileSync(file, 'export default () => ({ acquire: () => null });');
  const { code, stderr } = await lockstep('guests', '--library', file, '--faults', 'small', '--runs', '5');
  expect(code).toBe(Exit.inconclusive);
  expect(stderr).toContain('idle has never acquired the lock, so nothing was tested');
}, 60_000);

it('says which file is not there', async () => {
  const { code, stderr } = await lockstep('guests', '--library', './nowhere.ts');
  expect(code).toBe(Exit.usage);
  expect(stderr).toContain('there is no file ./nowhere.ts');
}, 60_000);
