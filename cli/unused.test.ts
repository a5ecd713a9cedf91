import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { judge } from '../properties/judge.js';
import { findScenario, loadCatalogue } from '../scenarios/catalogue.js';
import { type Fate, formatScenario, formatSchedule, type Schedule } from '../scenarios/index.js';
import { Exit } from './exit-codes.js';
import { emptyFolder, lockstep, type Ran } from './testing/in-process.js';
import { unusedIn } from './unused.js';

const FAULTY = findScenario('S03').schedule;
const SAFE: Schedule = { ...FAULTY, faults: [], fates: [] };
/** There is no fifth attempt. */
const MISTYPED: Fate = { client: 'c1', operation: 'acquire', node: 'n3', direction: 'request', attempt: 4, lost: true };
const NAMED = 'fates[0]: acquire from c1 to n3 (lock 0, attempt 4, round 0, send 0)';

async function replay(schedule: Schedule, ...flags: readonly string[]): Promise<Ran> {
  const cwd = emptyFolder();
  writeFileSync(join(cwd, 'own.json'), formatSchedule(schedule));
  return lockstep(['replay', 'own.json', ...flags], { cwd });
}

test.each(loadCatalogue().map(({ id, schedule }) => [id, schedule] as const))(
  'everything that %s writes down comes about',
  (_id, schedule) => {
    expect(unusedIn(schedule, judge(schedule))).toEqual([]);
  },
);

test('a schedule whose fate matches no message is not safe: the fate is named', async () => {
  const { code, stdout } = await replay({ ...SAFE, fates: [MISTYPED] });
  expect(code).toBe(Exit.inconclusive);
  expect(stdout).toContain('? inconclusive   Nothing was violated, but not all of the schedule came about.');
  expect(stdout).toContain(`  not used   ${NAMED}\n`);
  expect(stdout).not.toMatch(/\bsafe\b/);
});

test('programs are told of it too', async () => {
  const { code, stdout } = await replay({ ...SAFE, fates: [MISTYPED] }, '--json');
  expect(code).toBe(Exit.inconclusive);
  expect(JSON.parse(stdout)).toMatchObject({ verdict: 'inconclusive', unused: [NAMED], reproduced: null });
  const none = JSON.parse((await replay(SAFE, '--json')).stdout);
  expect(none).toMatchObject({ verdict: 'safe', unused: [] });
});

test.each(['html', 'svg', 'mermaid', 'perfetto', 'json'])('beside %s it is told on stderr', async (format) => {
  const { code, stderr } = await replay({ ...SAFE, fates: [MISTYPED] }, '--format', format);
  expect(code).toBe(Exit.inconclusive);
  expect(stderr).toBe(`lockstep: inconclusive; not used: ${NAMED}\n`);
});

test('faults and locks dated after the end do not come about either', async () => {
  const { untilUs, faults, clients } = FAULTY;
  const [first] = clients;
  const late = { kind: 'crash', node: 'n2', atUs: untilUs + 1000, restartAfterUs: null } as const;
  const lock = first?.locks[0];
  expect(lock).toBeDefined();
  if (first === undefined || lock === undefined) return;
  const locks = [...first.locks, { ...lock, atUs: untilUs + 2000 }];
  const schedule = {
    ...FAULTY,
    faults: [...faults, late],
    clients: [{ ...first, locks }, ...clients.slice(1)],
  };
  const { code, stdout } = await replay(schedule, '--json');
  expect(code).toBe(Exit.violated);
  expect(JSON.parse(stdout).unused).toEqual([
    `clients[0].locks[${locks.length - 1}]: acquire at ${(untilUs + 2000) / 1000} ms`,
    `faults[${faults.length}]: crash of n2 at ${(untilUs + 1000) / 1000} ms`,
  ]);
  expect((await replay({ ...SAFE, faults: [late] })).code).toBe(Exit.inconclusive);
});

test('what is violated stays violated, and the fate is named beside it', async () => {
  const { code, stdout } = await replay({ ...FAULTY, fates: [...FAULTY.fates, MISTYPED] });
  expect(code).toBe(Exit.violated);
  expect(stdout).toContain('✗ mutual exclusion');
  expect(stdout).toContain(`  not used   ${NAMED.replace('0', String(FAULTY.fates.length))}\n`);
});

test('a scenario that expects what a mistyped schedule gives is not reproduced by it', async () => {
  const cwd = emptyFolder();
  const scenario = findScenario('S03');
  const write = (verdict: 'safe' | 'violated'): void =>
    writeFileSync(
      join(cwd, 'own.json'),
      formatScenario({ ...scenario, schedule: { ...SAFE, fates: [MISTYPED] }, expect: { verdict } }),
    );
  write('safe');
  const met = await lockstep(['replay', 'own.json'], { cwd });
  expect(met.code).toBe(Exit.inconclusive);
  expect(met.stdout).not.toContain('✓');
  write('violated');
  const missed = await lockstep(['replay', 'own.json'], { cwd });
  expect(missed.code).toBe(Exit.notReproduced);
  expect(missed.stdout).toContain(`  not used   ${NAMED}\n`);
});

test('with a mitigation messages may well not be sent: only programs are told', async () => {
  const schedule = { ...SAFE, fates: [MISTYPED] };
  const { code, stdout } = await replay(schedule, '--with', 'persistence=always');
  expect({ code, told: stdout.includes('not used') }).toEqual({ code: Exit.ok, told: false });
  const json = JSON.parse((await replay(schedule, '--with', 'persistence=always', '--json')).stdout);
  expect(json).toMatchObject({ verdict: 'safe', unused: [NAMED] });
});
