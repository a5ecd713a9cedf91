import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { lockstep, started } from '../campaign/testing/command.js';
import { findScenario } from '../scenarios/catalogue.js';
import { formatSchedule } from '../scenarios/index.js';
import { Exit } from './exit-codes.js';
import { outputGrammar } from './output-grammar.js';
import { emptyFolder } from './testing/in-process.js';

it('tests a library in a worker of its own, and says what came of it as one JSON object', async () => {
  const { code, stdout, stderr } = await lockstep(
    'libraries',
    ...['--only', 'redlock5', '--fault-classes', 'even,small', '--runs', '10', '--no-shrink', '--json'],
  );
  expect([code, stderr]).toEqual([Exit.ok, '']);
  expect(outputGrammar.safeParse(JSON.parse(stdout)).error?.issues ?? []).toEqual([]);
  const { schema, rows } = JSON.parse(stdout);
  expect(schema).toBe('lockstep.libraries/1');
  expect(rows.map(({ fault, runs }: { fault: string; runs: number }) => [fault, runs])).toEqual([
    ['small', 10],
    ['even', 10],
  ]);
  // A tie among an even number of nodes is never settled.
  expect(rows[1].violations).toBeGreaterThan(0);
});

it('writes each counterexample with the page of its run, and shows it again by the command that it prints', async () => {
  const hunt = started(['libraries', '--only', 'redlock5', '--fault-classes', 'even', '--runs', '20']);
  const { stdout } = await hunt.end;
  const file = '.lockstep/libraries/redlock5-even-hang.json';
  expect(stdout).toContain(`libraries --replay ${file} --only redlock5\n`);
  const page = readFileSync(join(hunt.cwd, file.replace('.json', '.html')), 'utf8');
  expect(page).toContain('<title>redlock5-even-hang: redlock5, unmodified, in the simulated world</title>');
  const replay = ['libraries', '--replay', join(hunt.cwd, file), '--only', 'redlock5'];
  const shown = await lockstep(...replay);
  expect(shown).toMatchObject({ code: Exit.violated, stderr: '' });
  expect(shown.stdout).toContain('has not returned for');
  const again = await lockstep(...replay, '--format', 'html');
  expect(again.stdout).toContain('<title>redlock5-even-hang: ');
  // The file says whose failure it is.
  expect(await lockstep('libraries', '--replay', join(hunt.cwd, file))).toEqual(shown);
  expect(await lockstep('replay', join(hunt.cwd, file))).toMatchObject({ code: Exit.usage, stdout: '' });
});

it('takes --open and --format for one schedule only', async () => {
  const { code, stderr } = await lockstep('libraries', '--open');
  expect(code).toBe(Exit.usage);
  expect(stderr).toContain('--open and --format are about one schedule');
});

/** Takes the nodes that answer first for a majority, and deletes whatever key is there. */
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

it('tests a lock in a file, and exits as for a violation where it breaks inside the assumptions', async () => {
  const file = join(emptyFolder(), 'my-lock.ts');
  writeFileSync(file, MINE);
  const { end } = started([
    'libraries',
    '--file',
    file,
    '--fault-classes',
    'small',
    '--runs',
    '20',
    '--no-shrink',
    '--json',
  ]);
  const { code, stdout, stderr } = await end;
  expect([code, stderr]).toEqual([Exit.violated, '']);
  expect(JSON.parse(stdout).rows[0]).toMatchObject({ library: 'my-lock' });
});

it('does not pass a lock that is never acquired', async () => {
  const file = join(emptyFolder(), 'idle.mjs');
  writeFileSync(file, 'export default () => ({ acquire: () => null });');
  const { code, stderr } = await lockstep('libraries', '--file', file, '--fault-classes', 'small', '--runs', '5');
  expect(code).toBe(Exit.inconclusive);
  expect(stderr).toContain('idle has never acquired the lock, so nothing was tested');
});

it('takes what makes no lock for wrong input', async () => {
  const file = join(emptyFolder(), 'none.mjs');
  writeFileSync(file, 'export const lock = 1;');
  const said = {
    code: Exit.usage,
    stdout: '',
    stderr: `lockstep: ${file} has to export makeLock({ nodes }), or have it as its default\n`,
  };
  expect(await lockstep('libraries', '--file', file, '--fault-classes', 'small', '--runs', '1')).toEqual(said);
  const schedule = join(emptyFolder(), 'S03.json');
  writeFileSync(schedule, formatSchedule(findScenario('S03').schedule));
  expect(await lockstep('libraries', '--file', file, '--replay', schedule)).toEqual(said);
  writeFileSync(file, 'export const = 1;');
  const broken = await lockstep('libraries', '--file', file, '--fault-classes', 'small', '--runs', '1');
  expect(broken).toMatchObject({ code: Exit.usage, stderr: expect.stringContaining('cannot be loaded: SyntaxError') });
});

it('tries a lock for one node on one, and asks for that where it talks to one of five', async () => {
  const file = join(emptyFolder(), 'one.ts');
  const lock = new URL('../libraries/testing/clients/right-locks.ts', import.meta.url).pathname;
  writeFileSync(
    file,
    `import { OneNodeLock } from ${JSON.stringify(lock)};\nexport const makeLock = ({ nodes: [node] }) => new OneNodeLock(node);\n`,
  );
  const argv = ['libraries', '--file', file, '--runs', '5', '--seed', 'one'];
  const one = await lockstep(...argv, '--nodes', '1', '--fault-classes', 'small,drift,restart-delayed');
  expect(one).toMatchObject({ code: Exit.ok, stderr: '' });
  const five = await lockstep(...argv, '--fault-classes', 'small');
  expect(five.code).toBe(Exit.violated);
  expect(five.stdout).toContain('has ever asked more than one of its 5 nodes; did you mean --nodes 1?');
  const even = await lockstep(...argv, '--nodes', '1', '--fault-classes', 'even');
  expect(even).toMatchObject({ code: Exit.usage, stderr: expect.stringContaining('even is not for --nodes 1') });
});

it('says nothing of a number of nodes that it has chosen itself', async () => {
  const { stderr } = await lockstep(
    'libraries',
    '--only',
    'lockstep',
    '--fault-classes',
    'even',
    '--runs',
    '2',
    '--no-shrink',
  );
  expect(stderr).toBe('');
});

it('says which file is not there', async () => {
  const { code, stderr } = await lockstep('libraries', '--file', './nowhere.ts');
  expect(code).toBe(Exit.usage);
  expect(stderr).toContain('there is no file ./nowhere.ts');
});

it('puts two libraries beside each other, and shows again what it finds', async () => {
  const two = ['--pair', 'redlock4,redis-semaphore'];
  const hunt = started(['libraries', ...two, '--nodes', '1', '--runs', '2']);
  const { code, stdout } = await hunt.end;
  expect(code).toBe(Exit.violated);
  expect(stdout).toContain(
    'redlock4, joined by redis-semaphore, on one node, with one name: each library alone is safe',
  );
  expect(stdout).toContain('1 008  c2      n0 granted');
  expect(stdout).toContain('✓ nothing found   redlock4, joined by redis-semaphore, on one node, with one key');
  const file = join(hunt.cwd, '.lockstep/libraries/pair-redlock4-redis-semaphore-1.json');
  const again = await lockstep('libraries', '--replay', file);
  expect(again).toMatchObject({ code: Exit.violated, stderr: '' });
  expect(again.stdout).toContain('all kept, so this is a bug of the two together');
  expect(await lockstep('libraries', '--replay', file, ...two)).toEqual(again);
  expect(await lockstep('libraries', '--replay', file, ...two, '--same-key')).toMatchObject({ code: Exit.ok });
});

it.each([
  [['--pair', 'redlock4'], '--pair takes two libraries'],
  [['--pair', 'redlock4,nothing'], '--pair: "nothing" is not one of its values'],
  [['--pair', 'redlock4,redlock5', '--same-key'], '--same-key: no name makes these'],
  [['--pair', 'redlock4,redlock5', '--nodes', '5'], '--nodes: libraries are put beside each other'],
  [['--pair', 'redlock4,redlock5', '--fault-classes', 'drift'], '--fault-classes has no effect'],
  [['--same-key'], '--same-key has no effect'],
])('takes %j for wrong input', async (argv, said) => {
  const { code, stderr } = await lockstep('libraries', ...argv);
  expect(code).toBe(Exit.usage);
  expect(stderr).toContain(said);
});
