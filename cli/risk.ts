import { existsSync } from 'node:fs';
import { extname, resolve } from 'node:path';
import { parseSystem } from '../advise/parse-system.js';
import { type EstimateOptions, estimateRisk } from '../advise/risk/estimate.js';
import { mitigationsOf } from '../advise/risk/mitigations.js';
import type { RiskModel } from '../advise/risk/model.js';
import { modelOf } from '../advise/risk/model-of.js';
import { parseRates, type RangeEnd } from '../advise/risk/rates.js';
import { StratumRuns } from '../advise/risk/stratum-runs.js';
import type { CauseRisk, RiskEstimate } from '../advise/risk/summary.js';
import type { System } from '../advise/system.js';
import { judge } from '../properties/index.js';
import { InputError, show } from '../scenarios/input-error.js';
import { isPlainObject } from '../scenarios/plain-data.js';
import { readData } from './config.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { expectedOf, replayCommand, writeScenario } from './failure-file.js';
import type { RiskFlags } from './flags.js';
import { type Io, writeJson } from './io.js';
import { ProgressLine } from './progress.js';
import type { EstimatedChange, RiskAnswer, WrittenExample } from './risk-answer.js';
import { riskJson, typicalJson } from './risk-json.js';
import { riskPool } from './risk-pool.js';
import { riskText, typicalText } from './risk-text.js';
import { workersOf } from './workers.js';
import { writeNamed } from './write-file.js';

/** Where runs go that show a cause, below the working directory. */
const FOLDER = '.lockstep/risk';
const DEFAULT_SEED = '1';

/** Estimates what is to be expected of a system, and answers what it is asked for. */
export async function risk(file: string | undefined, flags: RiskFlags, io: Io): Promise<ExitCode> {
  if (flags.typical === true) {
    if (flags.json) writeJson(io, 'lockstep.typical-rates/1', typicalJson());
    else io.stdout.write(typicalText(io));
    return Exit.ok;
  }
  if (file === undefined)
    throw new InputError('name a file that describes the system and its rates, such as examples/risk/system.json');
  const system = parseSystem(withFlags(await readDescription(file, io), flags), file);
  const ends = typicalIn(system) ? (['low', 'high'] as const) : [null];
  const pool = riskPool(await workersOf(flags.workers));
  const line = new ProgressLine(io);
  const answers: RiskAnswer[] = [];
  try {
    for (const end of ends) answers.push(await answerFor(system, end, flags, { io, line, ...pool }));
  } finally {
    line.end();
    await pool.close();
  }
  if (flags.json) writeJson(io, 'lockstep.risk/1', riskJson(answers, io.signal.aborted));
  else io.stdout.write(riskText(answers, io));
  if (flags.report !== undefined) await writePage(flags.report, answers, { ...flags, file }, io);
  if (io.signal.aborted) return Exit.interrupted;
  const above = answers.some(({ estimate }) => flags.atMost !== undefined && estimate.perYear.high > flags.atMost);
  return above ? Exit.violated : Exit.ok;
}

async function writePage(
  path: string,
  answers: readonly RiskAnswer[],
  flags: RiskFlags & { readonly file: string },
  io: Io,
): Promise<void> {
  const { riskPage } = await import('./risk-page.js');
  writeNamed('--report', path, riskPage(answers, argvOf(flags), io), io.cwd);
  if (!flags.json) io.stdout.write(`\nreport  ${path}\n`);
}

/** The command that estimates the same again. */
function argvOf(flags: RiskFlags & { readonly file: string }): string[] {
  const { file, profile, persistence, nodes, ttl, restartDelay, runs, seed, changes } = flags;
  const set: readonly (readonly [string, string | number | undefined])[] = [
    ['--profile', profile],
    ['--persistence', persistence],
    ['--nodes', nodes],
    ['--ttl', ttl === undefined ? undefined : `${ttl}ms`],
    ['--restart-delay', restartDelay === undefined ? undefined : `${restartDelay}us`],
    ['--runs', runs],
    ['--seed', seed],
  ];
  const given = set.flatMap(([name, value]) => (value === undefined ? [] : [name, String(value)]));
  return ['risk', file, ...given, ...(changes ? [] : ['--no-changes'])];
}

async function readDescription(file: string, io: Io): Promise<Readonly<Record<string, unknown>>> {
  if (!['.json', '.ts', '.js', '.mjs'].includes(extname(file)))
    throw new InputError(`${show(file)} is no description; it ends with .json, .ts, .js or .mjs`);
  const path = resolve(io.cwd, file);
  if (!existsSync(path)) throw new InputError(`${show(file)}: there is no such file; see --help for what it holds`);
  const value = await readData(path, file);
  if (!isPlainObject(value)) throw new InputError(`${file}: it must be an object that describes a system`);
  return value;
}

/** A description with what the command line says in its place. */
function withFlags(value: Readonly<Record<string, unknown>>, flags: RiskFlags): Record<string, unknown> {
  const { profile, persistence, nodes, ttl, restartDelay } = flags;
  const node = {
    ...(persistence === undefined ? {} : { persistence }),
    ...(restartDelay === undefined ? {} : { restart: `${restartDelay}us` }),
  };
  const groups = Array.isArray(value.nodes) ? value.nodes : [value.nodes];
  const changed = groups.map((it: unknown) => (isPlainObject(it) ? { ...it, ...node } : it));
  const [first] = changed;
  const client = {
    ...(isPlainObject(value.client) ? value.client : {}),
    ...(profile === undefined ? {} : { library: profile }),
    ...(ttl === undefined ? {} : { ttl: `${ttl}ms` }),
  };
  return {
    ...value,
    nodes: nodes === undefined ? changed : isPlainObject(first) ? { ...first, count: nodes } : first,
    ...(value.client === undefined && Object.keys(client).length === 0 ? {} : { client }),
  };
}

function typicalIn({ rates, work }: System): boolean {
  return parseRates(rates, work.longestUs).typical.length > 0;
}

interface Work {
  readonly io: Io;
  readonly line: ProgressLine;
  readonly run?: EstimateOptions['run'];
}

async function answerFor(system: System, end: RangeEnd | null, flags: RiskFlags, work: Work): Promise<RiskAnswer> {
  const { io } = work;
  const locks = parseRates(system.rates, system.work.longestUs, end ?? 'high');
  const model = modelOf(system, locks);
  const seed = flags.seed ?? DEFAULT_SEED;
  const mitigations = flags.changes ? mitigationsOf(system, locks) : [];
  const estimate = await estimateWith(model, flags, work, `the system as it is (1 of ${1 + mitigations.length})`);
  const changes: EstimatedChange[] = [];
  for (const [i, mitigation] of mitigations.entries()) {
    if (io.signal.aborted) break;
    const what = `${mitigation.title} (${i + 2} of ${1 + mitigations.length})`;
    changes.push({ mitigation, estimate: await estimateWith(mitigation.model, flags, work, what) });
  }
  const examples = estimate.causes.map((cause) => writeExample(cause, model, seed, end, io));
  return { end, system, locks, model, seed, estimate, examples, changes };
}

async function estimateWith(
  model: RiskModel,
  { seed, runs }: RiskFlags,
  { io, line, run }: Work,
  what: string,
): Promise<RiskEstimate> {
  return await estimateRisk(model, {
    seed: seed ?? DEFAULT_SEED,
    ...(runs === undefined ? {} : { runs }),
    ...(run === undefined ? {} : { run }),
    signal: io.signal,
    onProgress: (share) => line.show(`${Math.floor(100 * share)} % of ${what}`),
  });
}

/** Makes the run of a cause again, and writes it down. */
function writeExample(cause: CauseRisk, model: RiskModel, seed: string, end: RangeEnd | null, io: Io): WrittenExample {
  const { stratum, run } = cause.example;
  const { schedule } = new StratumRuns({ model, stratum, seed }).make(run).run;
  const judgement = judge(schedule, [], true);
  const [property] = judgement.violations.map((it) => it.property);
  if (property === undefined) throw new Error('a run that was violated is not when it is run again');
  const name = cause.causes.length === 0 ? 'nothing' : cause.causes.join('+');
  const id = [end, name].filter((it) => it !== null).join('-');
  const path = writeScenario(
    {
      schema: 'lockstep.scenario/1',
      id,
      title: `A hold that is violated, by ${name}`,
      story: 'One of the runs from which lockstep risk estimates violations a year.',
      source: 'drawn by lockstep risk',
      schedule,
      expect: expectedOf(judgement, property),
      flips: [],
      neighbours: [],
    },
    FOLDER,
    io,
  );
  return { cause, path, replay: path === null ? null : replayCommand(io, path) };
}
