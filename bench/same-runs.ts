import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { loadCatalogue } from '../scenarios/catalogue.js';

/*
 * Compares this build with another one, run by run: `node dist/bench/same-runs.js OTHER-DIST [--runs 10000]`. The catalogue is
 * judged by both; drawn runs of every fault model of the comparison with the oracle are made by both. Hashes, violations with
 * their instants and words, coverage and near misses have to be the same, and for every tenth run the whole trace as well.
 */

/** The parts of a build that are used here. */
interface Build {
  readonly search: typeof import('../search/index.js');
  readonly drawn: typeof import('../search/generated-run.js');
  readonly judge: typeof import('../properties/judge.js').judge;
  readonly searched: typeof import('../properties/property-lists.js').SEARCHED;
  readonly noCounts: typeof import('../properties/coverage.js').noCounts;
  readonly streams: typeof import('../sim/random.js').RandomStreams;
  readonly faultModels: typeof import('./oracle/agreement.js').WEATHERS;
  readonly player: typeof import('./workload.js').Player;
}

async function load(dist: URL): Promise<Build> {
  const from = (path: string): Promise<unknown> => import(new URL(path, dist).href);
  const search = (await from('search/index.js')) as Build['search'];
  const drawn = (await from('search/generated-run.js')) as Build['drawn'];
  const { judge } = (await from('properties/judge.js')) as Build;
  const { SEARCHED } = (await from('properties/property-lists.js')) as { SEARCHED: Build['searched'] };
  const { noCounts } = (await from('properties/coverage.js')) as Build;
  const { RandomStreams } = (await from('sim/random.js')) as { RandomStreams: Build['streams'] };
  const { WEATHERS } = (await from('bench/oracle/agreement.js')) as { WEATHERS: Build['faultModels'] };
  const { Player } = (await from('bench/workload.js')) as { Player: Build['player'] };
  return {
    search,
    drawn,
    judge,
    searched: SEARCHED,
    noCounts,
    streams: RandomStreams,
    faultModels: WEATHERS,
    player: Player,
  };
}

/** Every how many runs the whole trace is compared. */
const WHOLE_EVERY = 10;
const MOST_SHOWN = 5;

const { values, positionals } = parseArgs({
  options: { runs: { type: 'string', default: '10000' }, seed: { type: 'string', default: 'same' } },
  allowPositionals: true,
});
const [path] = positionals;
if (path === undefined) throw new Error('usage: node dist/bench/same-runs.js OTHER-DIST [--runs 10000] [--seed same]');
const own = await load(new URL('../', import.meta.url));
const other = await load(pathToFileURL(`${path}/`));
let differences = 0;

function compare(name: string, a: string, b: string): void {
  if (a === b || ++differences > MOST_SHOWN) return;
  let at = 0;
  while (a[at] === b[at]) at++;
  const part = (text: string): string => text.slice(Math.max(0, at - 100), at + 200);
  process.stdout.write(`${name} differs:\n  this   ${part(a)}\n  other  ${part(b)}\n`);
}

function catalogue(): number {
  const scenarios = loadCatalogue();
  for (const { id, schedule } of scenarios) {
    const of = ({ judge, searched }: Build): string => JSON.stringify(judge(schedule, searched, true));
    compare(id, of(own), of(other));
  }
  return scenarios.length;
}

function drawnRuns(runs: number): void {
  const of = (build: Build): ((run: number) => string) => {
    const streams = new build.streams(values.seed);
    const { RunGenerator } = build.drawn;
    const generator = RunGenerator === undefined ? { generate: build.drawn.generateRun } : new RunGenerator();
    return (run) => {
      const faultModel = build.faultModels[run % build.faultModels.length] ?? build.search.WITHIN_ASSUMPTIONS;
      const counts = build.noCounts();
      const { world, monitors, adversary } = generator.generate(faultModel, streams, run, counts);
      const { events, context } = world;
      const steps = world.clients.map((client) => client.steps);
      const { violations, closeness, writes } = monitors;
      const said = [context.trace.digest(), events, steps, violations, closeness.isNear, writes, adversary.hasStressed];
      return JSON.stringify([...said, counts, run % WHOLE_EVERY === 0 ? whole(build, faultModel, streams, run) : null]);
    };
  };
  const [mine, theirs] = [of(own), of(other)];
  for (let run = 0; run < runs; run++) compare(`run ${run}`, mine(run), theirs(run));
}

function whole(
  { drawn, judge, searched }: Build,
  faultModel: Parameters<Build['drawn']['recordRun']>[0],
  streams: InstanceType<Build['streams']>,
  run: number,
): unknown {
  const { schedule, hash } = drawn.recordRun(faultModel, streams, run);
  return [hash, judge(schedule, searched, true)];
}

function reference(runs: number): void {
  const of = (build: Build): string => {
    const player = new build.player();
    for (let run = 0; run < runs; run++) player.play(run);
    return JSON.stringify([player.hash.digest(), player.events, player.steps, player.violations, player.counts]);
  };
  compare('the reference workload', of(own), of(other));
}

const runs = Number(values.runs);
const scenarios = catalogue();
drawnRuns(runs);
reference(runs);
process.stdout.write(
  `${scenarios} scenarios, ${runs} drawn runs and ${runs} of the reference workload: ${differences === 0 ? 'no difference' : `${differences} differences`}\n`,
);
if (differences > 0) process.exitCode = 1;
