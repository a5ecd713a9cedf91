import { judgeAsExpected, reproduces } from '../properties/expectation.js';
import type { Judgement } from '../properties/index.js';
import { SAFETY } from '../properties/property-lists.js';
import { ANSI, formatTimeline, type Painter, PLAIN, propertyLabel, type ReportInput } from '../report/index.js';
import { WIDTH } from '../report/table.js';
import {
  type Expectation,
  mitigate,
  type PropertyId,
  type Scenario,
  type Schedule,
  type Verdict,
} from '../scenarios/index.js';
import { InputError } from '../scenarios/input-error.js';
import { type Explained, explain } from '../search/shrinking/explain.js';
import { wrap } from '../text/format.js';
import { printable } from '../text/printable.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { replayCommand, steppingCommand } from './failure-file.js';
import type { ReplayFlags } from './flags.js';
import { hasColour, type Io, say, writeJson } from './io.js';
import { writeForm } from './replay-formats.js';
import { showReport } from './report-file.js';
import { type Loaded, loadScenario } from './scenario-file.js';
import { textTable } from './text-table.js';
import { unusedIn } from './unused.js';

/** A schedule that was run again. */
export interface Replayed {
  readonly id: string;
  readonly schedule: Schedule;
  readonly judgement: Judgement;
  /** A schedule that did not wholly come about is not safe, unless that may be the work of a mitigation. */
  readonly verdict: Verdict | 'inconclusive';
  /** What of the schedule did not come about. */
  readonly unused: readonly string[];
  /** What was expected of it, if anything was. */
  readonly expected: Expectation | null;
  /** How it differs from that; `null` if it does not. */
  readonly difference: string | null;
  /** What happens without each of its pieces, if asked. */
  readonly explained: { readonly property: PropertyId; readonly pieces: readonly Explained[] } | null;
}

/** Longer tables lose their middle: nobody reads thousands of lines in a terminal. */
const MOST_ROWS = 200;
const LONGEST_TITLE = 200;
const LONGEST_DIFFERENCE = 400;

/** Runs one schedule again and compares the outcome with what its scenario expects. */
export function replay(name: string, flags: ReplayFlags, io: Io): ExitCode {
  const loaded = loadScenario(name, io.cwd, io.command);
  const mitigations = flags.with ?? [];
  const replayed = runAgain(loaded, mitigations, flags.explain ?? false);
  const shown = (): ReportInput => shownOf(name, loaded, replayed, io, mitigations);
  if (flags.json) writeJson(io, 'lockstep.replay/1', replayJson(replayed));
  else if (flags.format === 'json') writeJson(io, 'lockstep.trace/1', traceJson(replayed));
  else if (flags.open) showReport(loaded.report, shown(), io);
  else if (flags.format !== 'text') writeForm(flags.format, shown(), io);
  else io.stdout.write(replayText(loaded, mitigations, replayed, hasColour(io) ? ANSI : PLAIN));
  const isToldThere = !flags.open && (flags.json || flags.format === 'text');
  if (replayed.verdict === 'inconclusive' && !isToldThere)
    say(io, `inconclusive; not used: ${replayed.unused.join('; ')}`);
  return codeOf(replayed);
}

/** Whether what was expected came; of what nobody expected anything, whether it is safe. */
function codeOf({ expected, difference, verdict }: Replayed): ExitCode {
  if (difference !== null) return Exit.notReproduced;
  if (verdict === 'inconclusive') return Exit.inconclusive;
  return expected !== null || verdict === 'safe' ? Exit.ok : Exit.violated;
}

/** What its forms are made from. */
export function shownOf(
  name: string,
  { scenario }: Loaded,
  { id, schedule, judgement }: Replayed,
  io: Io,
  mitigations: readonly string[],
): ReportInput {
  const flags = mitigations.flatMap((it) => ['--with', it]);
  // With mitigations in place it is another schedule than that of its file.
  const byHand = flags.length === 0 ? steppingCommand(io, name) : null;
  return { id, schedule, scenario, judgement, replay: replayCommand(io, name, ...flags), byHand };
}

/** Runs a schedule with these mitigations; says what each of its pieces is good for, if `why`. */
export function runAgain(
  { id, schedule: given, scenario }: Loaded,
  mitigations: readonly string[],
  why: boolean,
): Replayed {
  const schedule = mitigations.reduce(mitigate, given);
  const [only] = mitigations;
  const flip = scenario?.flips.find((it) => mitigations.length === 1 && it.with === only && it.change === undefined);
  const expected = mitigations.length === 0 ? (scenario?.expect ?? null) : (flip?.expect ?? null);
  const judgement = judgeAsExpected(schedule, expected ?? scenario?.expect ?? { verdict: 'safe' });
  const broken = mainViolation(judgement, expected);
  const unused = unusedIn(schedule, judgement);
  const isDecided = judgement.verdict !== 'safe' || mitigations.length > 0 || unused.length === 0;
  if (why && broken === undefined) throw new InputError(`nothing is violated in ${id}, so there is nothing to explain`);
  return {
    id,
    schedule,
    judgement,
    verdict: isDecided ? judgement.verdict : 'inconclusive',
    unused,
    expected,
    difference: expected === null ? null : reproduces(expected, judgement),
    explained: why && broken !== undefined ? { property: broken, pieces: explain(schedule, broken) } : null,
  };
}

function replayJson({ id, judgement, verdict, unused, expected, difference, explained }: Replayed): object {
  const { violations, verdicts, outages, assumptionsBroken, run } = judgement;
  return {
    id,
    verdict,
    violations: violations.map(({ property, kind, atUs, untilUs, resource, detail }) => ({
      property,
      kind,
      atUs,
      untilUs,
      resource,
      detail,
    })),
    verdicts: { ...verdicts, unavailable: outages.map(({ fromUs, toUs }) => ({ fromUs, toUs })) },
    availability: outages,
    assumptionsBroken,
    unused,
    hash: run.hash,
    events: run.events,
    reproduced: difference !== null ? false : expected === null || verdict === 'inconclusive' ? null : true,
    difference,
    ...(explained === null ? {} : { explained }),
  };
}

function traceJson({ id, schedule, judgement: { run }, verdict }: Replayed): object {
  return { id, verdict, hash: run.hash, schedule, trace: run.trace };
}

function replayText({ id, scenario }: Loaded, mitigations: readonly string[], it: Replayed, paint: Painter): string {
  const title = titleOf(id, scenario);
  const story = scenario === null ? [] : wrap(scenario.story, WIDTH - 2).map((line) => `  ${line}`);
  const run = it.judgement.run;
  const unused = mitigations.length === 0 ? it.unused : [];
  return [
    paint.strong(title),
    ...story,
    ...(mitigations.length === 0 ? [] : [`  with ${mitigations.join(' and ')}`]),
    '',
    formatTimeline(it.schedule, it.judgement, { paint, mostRows: MOST_ROWS, unused }),
    ...explanation(it),
    `  ${comparison(it, paint)}   hash ${run.hash}   ${run.events} events`,
    '',
  ].join('\n');
}

/** A schedule in one line. */
export function titleOf(id: string, scenario: Scenario | null): string {
  return printable(scenario === null ? id : `${id}  ${scenario.title}`, LONGEST_TITLE);
}

function explanation({ explained }: Replayed): string[] {
  if (explained === null) return [];
  const rows = explained.pieces.map(({ kind, piece, without }) => [kind, piece, without]);
  const title = `what comes of ${propertyLabel(explained.property)} without each piece by itself`;
  return [`  ${title}`, '', textTable(['kind', 'piece', 'without it'], rows), ''];
}

/** What a schedule is first of all about: what was expected to break, else what breaks a belief or an effect. */
function mainViolation({ violations }: Judgement, expected: Expectation | null): PropertyId | undefined {
  const named = expected?.violations?.map(({ property }) => property) ?? SAFETY;
  const [first] = violations;
  return (violations.find(({ property }) => named.includes(property)) ?? first)?.property;
}

function comparison({ expected, difference, verdict }: Replayed, paint: Painter): string {
  if (expected === null) return `${verdict}; nothing is said about what it should be`;
  if (difference !== null) return `${paint.bad('✗ not reproduced')}: ${printable(difference, LONGEST_DIFFERENCE)}`;
  if (verdict === 'inconclusive') return `? inconclusive: expected ${expected.verdict}`;
  return `${paint.good('✓ reproduced')}: ${expected.verdict}, as expected`;
}
