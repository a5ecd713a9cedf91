import { judge } from '../properties/index.js';
import { ANSI, PLAIN } from '../report/index.js';
import {
  type EdgeCommand,
  type Here,
  mostColumns,
  phrase,
  safetyMapLines,
  safetyMapPage,
  safetyMapSentence,
  settingWords,
  theorySentence,
} from '../report/safety-map/index.js';
import { InputError } from '../scenarios/input-error.js';
import { named } from '../scenarios/named.js';
import {
  type Axis,
  agreementOf,
  type BoundaryWitness,
  edgeOf,
  placeOn,
  type SafetyMap,
  type SweepPlan,
  sweep,
  sweepPlanOf,
  USUAL_ROOM,
  type WitnessRun,
} from '../search/safety-map/index.js';
import { wrap } from '../text/format.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { expectedOf, replayCommand, writeScenario } from './failure-file.js';
import type { SweepFlags } from './flags.js';
import { hasColour, type Io, widthOf, writeJson } from './io.js';
import { ProgressLine } from './progress.js';
import { writeNamed } from './write-file.js';

/** Where the two runs at the edge go, below the working directory; what is known to fail is elsewhere. */
const FOLDER = '.lockstep/safety-map';

/** More columns than these say no more. */
const MOST_COLUMNS = 64;

/** Measures the map over two parameters, and answers what it is asked for. */
export async function sweepMap(parameters: readonly string[], flags: SweepFlags, io: Io): Promise<ExitCode> {
  const room = ({ name, values }: Axis): typeof USUAL_ROOM =>
    flags.json ? USUAL_ROOM : { ...USUAL_ROOM, across: Math.min(MOST_COLUMNS, mostColumns(name, values, widthOf(io))) };
  const { profile, persistence } = flags;
  const plan = sweepPlanOf(parameters, room, {
    ...(profile === undefined ? {} : { profile }),
    ...(persistence === undefined ? {} : { persistence }),
  });
  const here = hereOn(plan, flags);
  const line = new ProgressLine(io);
  const began = performance.now();
  const map = await sweep(plan, {
    signal: io.signal,
    onProgress: (done, total) => line.show(progressText(done, total, performance.now() - began)),
  });
  line.end();
  const edge = edgeOf(map);
  const shown = edge === null ? null : { edge, ...writeEdge(map, edge, io) };
  if (flags.json) writeJson(io, 'lockstep.sweep/1', sweepJson(map, shown));
  else io.stdout.write(sweepText(map, shown, io));
  if (flags.report !== undefined) {
    writeNamed('--report', flags.report, safetyMapPage(map, commandsOf(shown), here), io.cwd);
    if (!flags.json) io.stdout.write(`${'report'.padEnd(LABEL_WIDTH)}${flags.report}\n`);
  }
  return map.interrupted ? Exit.interrupted : Exit.ok;
}

/** Where the reader is, for the page. */
function hereOn(plan: SweepPlan, { here, report }: SweepFlags): Here | null {
  if (here === undefined) return null;
  if (report === undefined) throw new InputError('--here: it is a mark on the page of the map; add --report');
  return { ...named('--here', (text) => placeOn(plan, text))(here), label: 'you are here' };
}

function progressText(done: number, total: number, elapsedMs: number): string {
  const left = done === 0 ? '' : `, about ${Math.ceil((elapsedMs / done / 1000) * (total - done))} s left`;
  return `measured ${done} of ${total} columns${left}`;
}

/** A run at the edge, as a file that can be replayed. */
interface Written {
  /** `null` where it could not be written. */
  readonly path: string | null;
  readonly replay: string | null;
}

interface Shown {
  readonly edge: BoundaryWitness;
  readonly violated: Written;
  readonly safe: Written;
}

function writeEdge(map: SafetyMap, edge: BoundaryWitness, io: Io): Omit<Shown, 'edge'> {
  return {
    violated: writeRun(map, edge, edge.tightest, io),
    safe: writeRun(map, edge, edge.deepestSafe, io),
  };
}

function writeRun({ plan }: SafetyMap, { x, property }: BoundaryWitness, { at, cell }: WitnessRun, io: Io): Written {
  const judgement = judge(cell.schedule, [property], true);
  const id = `${plan.x.name}-${x}-${plan.y.name}-${at}-${cell.verdict}`;
  const where = `${phrase(plan.x.name, x)} and ${phrase(plan.y.name, at)}`;
  const path = writeScenario(
    {
      schema: 'lockstep.scenario/1',
      id,
      title: `${cell.verdict === 'safe' ? 'Just inside' : 'Just outside'} the edge: ${where}`,
      story: `The optimal adversary against a lock with ${where}.`,
      source: 'measured by lockstep sweep',
      schedule: cell.schedule,
      expect: expectedOf(judgement, property),
      flips: [],
      neighbours: [],
    },
    FOLDER,
    io,
  );
  return { path, replay: path === null ? null : replayCommand(io, path) };
}

const LABEL_WIDTH = 26;

function commandsOf(shown: Shown | null): EdgeCommand[] {
  if (shown === null) return [];
  return [
    { title: 'tightest counterexample', command: shown.violated.replay },
    { title: 'deepest safe run', command: shown.safe.replay },
  ].flatMap(({ title, command }) => (command === null ? [] : { title, command }));
}

function sweepText(map: SafetyMap, shown: Shown | null, io: Io): string {
  const { plan, columns, interrupted } = map;
  const width = widthOf(io);
  const paint = hasColour(io) ? ANSI : PLAIN;
  const { agree, cells } = agreementOf(columns);
  const about = [safetyMapSentence(map), theorySentence(map, shown?.edge ?? null, agree, cells)];
  const lines = [
    ...wrap(`Optimal adversary: ${settingWords(plan)}.`, width),
    '',
    ...safetyMapLines(map, width, paint),
    '',
    ...(interrupted ? [`Interrupted: ${columns.length} of ${plan.x.values.length} columns were measured.`] : []),
    ...about.flatMap((text, i) => wrap(text, width).map((it) => (i === 0 ? paint.strong(it) : it))),
    ...(shown === null
      ? []
      : ['', ...commandsOf(shown).map(({ title, command }) => `${title.padEnd(LABEL_WIDTH)}${command}`)]),
  ];
  return `${lines.join('\n')}\n`;
}

function sweepJson(map: SafetyMap, shown: Shown | null): object {
  const { plan, columns, focus, interrupted } = map;
  return {
    x: plan.x,
    y: plan.y,
    policy: plan.profile ?? 'reference',
    persistence: plan.persistence ?? 'none',
    fixed: plan.base,
    columns,
    answer: safetyMapSentence(map),
    focus,
    agreement: agreementOf(columns),
    ...(shown === null
      ? {}
      : {
          counterexample: {
            property: shown.edge.property,
            schedule: shown.violated.path,
            replay: shown.violated.replay,
          },
          deepestSafe: { schedule: shown.safe.path, replay: shown.safe.replay },
        }),
    interrupted,
  };
}
