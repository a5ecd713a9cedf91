import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ask } from './ask.js';
import { killedByTests } from './core-tests.js';
import { instrumentAll, makeCopies } from './house.js';
import { keysOf, readSurvivors } from './survivors.js';

const FOLDER = '.lockstep/mutate';
const SURVIVORS = 'docs/core-mutants.md';
/** Mutants for whose tests one process is started. */
const BATCH = 30;
/**
 * What scenarios and search, or tests, may take for one mutant, ms; more where the unchanged core takes long, because a
 * busy machine must not kill. The process of the tests may take ten times as long to start.
 */
const PATIENCE_MS = { ask: 20_000, test: 4_000 };
/** How many times slower than the unchanged core a mutant may be. */
const SLOWER = 5;
const LEAST_SHARE = 0.95;

interface Kill {
  readonly killer: string;
  readonly how: string;
}

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    jobs: { type: 'string', default: '2' },
    runs: { type: 'string', default: '100' },
    only: { type: 'string' },
    resume: { type: 'boolean', default: false },
  },
});

const root = fileURLToPath(new URL('../../../', import.meta.url));
const { mutants: all, modules } = instrumentAll(root);
const keys = keysOf(all);
const mutants = values.only === undefined ? all : all.filter(({ file }) => file === `core/${values.only}.ts`);
const killers = new Map<number, Kill>();
const began = performance.now();

/** What an earlier run that was broken off knows, by key; for `--resume`. */
const KNOWN = join(root, '.lockstep', 'mutate.json');
if (values.resume && existsSync(KNOWN)) {
  const known = new Map<string, Kill>(JSON.parse(readFileSync(KNOWN, 'utf8')) as [string, Kill][]);
  for (const { id } of mutants) {
    const kill = known.get(keys.get(id) ?? '');
    if (kill !== undefined) killers.set(id, kill);
  }
}

function progress(what: string): void {
  writeFileSync(`${KNOWN}.tmp`, JSON.stringify([...killers].map(([id, kill]) => [keys.get(id), kill])));
  renameSync(`${KNOWN}.tmp`, KNOWN);
  if (!process.stderr.isTTY) return;
  process.stderr.write(`\r${what}: ${killers.size} of ${mutants.length} killed `);
}

const { built, tests } = await makeCopies(root, join(root, FOLDER), modules);
const jobs = Math.max(1, Number(values.jobs));
const runs = Number(values.runs);
// Number 0 is no mutant: if that is killed, the test that kills it is wrong.
const checks = new Map<number, string>();
const NEVER_MS = 600_000;
const patience = { scenarios: 0, variants: 0, quick: 0, long: 0 };
for (const variants of [false, true]) {
  const tookMs = await timed(() =>
    ask({ built, runs, variants, patienceMs: NEVER_MS }, [0], ({ id, killer, how }) => {
      if (killer !== null) checks.set(id, `${killer} ${how}`);
    }),
  );
  patience[variants ? 'variants' : 'scenarios'] = Math.max(PATIENCE_MS.ask, SLOWER * tookMs);
}
for (const files of ['quick', 'long'] as const) {
  const tookMs = await timed(async () => {
    for (const [id, how] of await killedByTests({ tests, job: 0, files }, [0], NEVER_MS)) checks.set(id, how);
  });
  patience[files] = Math.max(PATIENCE_MS.test, tookMs);
}
const [wrong] = checks.values();
if (wrong !== undefined) throw new Error(`the unchanged core is taken for a mutant: ${wrong}`);
await askAll(false);
await testAll('quick');
await askAll(true);
await testAll('long');

async function timed(work: () => Promise<void>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}
if (process.stderr.isTTY) process.stderr.write('\n');

/** Those that live, dealt out to the jobs. */
function hands(): number[][] {
  const left = mutants.filter(({ id }) => !killers.has(id)).map(({ id }) => id);
  return Array.from({ length: jobs }, (_, job) => left.filter((_id, i) => i % jobs === job));
}

async function askAll(variants: boolean): Promise<void> {
  const take = ({ id, killer, how }: Parameters<Parameters<typeof ask>[2]>[0]): void => {
    if (killer !== null) killers.set(id, { killer, how });
    progress('scenarios and search');
  };
  const patienceMs = variants ? patience.variants : patience.scenarios;
  await Promise.all(hands().map((ids) => ask({ built, runs, variants, patienceMs }, ids, take)));
}

async function testAll(files: 'quick' | 'long'): Promise<void> {
  const one = async (ids: readonly number[], job: number): Promise<void> => {
    for (let from = 0; from < ids.length; from += BATCH) {
      const killed = await killedByTests({ tests, job, files }, ids.slice(from, from + BATCH), patience[files]);
      for (const [id, how] of killed) killers.set(id, { killer: 'test', how });
      progress('tests of core');
    }
  };
  await Promise.all(hands().map(one));
}

const listed = new Map(readSurvivors(readFileSync(join(root, SURVIVORS), 'utf8')).map((it) => [it.key, it]));
const survivors = mutants.filter(({ id }) => !killers.has(id));
const by = (killer: string): number => [...killers.values()].filter((it) => it.killer === killer).length;
const equivalent = survivors.filter(({ id }) => listed.get(keys.get(id) ?? '')?.equivalent === true).length;
const unexplained = survivors.filter(({ id }) => !listed.has(keys.get(id) ?? ''));
const share = killers.size / Math.max(1, mutants.length - equivalent);
const result = {
  schema: 'lockstep.mutate/1',
  mutants: mutants.length,
  killed: killers.size,
  byScenario: by('scenario'),
  bySearch: by('search'),
  byTest: by('test'),
  byTimeOut: by('time-out'),
  equivalent,
  alive: survivors.length - equivalent,
  share: Math.round(share * 10_000) / 10_000,
  survivors: survivors.map(({ id, line, operator }) => ({
    key: keys.get(id) ?? '',
    line,
    operator,
    explained: listed.get(keys.get(id) ?? '')?.why ?? null,
  })),
  seconds: Math.round((performance.now() - began) / 1000),
};
process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : textOf());
process.exitCode = share >= LEAST_SHARE && unexplained.length === 0 ? 0 : 4;

function textOf(): string {
  const { byScenario, bySearch, byTest, byTimeOut, alive, seconds } = result;
  return [
    `${mutants.length} mutants of core: ${killers.size} killed (${byScenario} by scenarios, ${bySearch} by search, ` +
      `${byTest} by tests of core, ${byTimeOut} by not ending)`,
    `${equivalent} equivalent, ${alive} alive: ${(100 * share).toFixed(1)} % of the others are killed, in ${seconds} s`,
    ...unexplained.map(({ id, line }) => `not explained in ${SURVIVORS}: \`${keys.get(id)}\` (line ${line})`),
    '',
  ].join('\n');
}
