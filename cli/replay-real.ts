import { htmlReport } from '../report/html.js';
import { ANSI, type Painter, PLAIN, type RecordingInput, recordingOf, takenOfObserved } from '../report/index.js';
import { WIDTH } from '../report/table.js';
import { loadCatalogue } from '../scenarios/catalogue.js';
import type { LockLine } from '../scenarios/history-line.js';
import type { Scenario } from '../scenarios/index.js';
import { plural, wrap } from '../text/format.js';
import { printable } from '../text/printable.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { replayCommand } from './failure-file.js';
import { hasColour, type Io, writeJson } from './io.js';
import { ProgressLine } from './progress.js';
import { type RealOutcome, type RealPlay, realOutcome } from './real-outcome.js';
import { titleOf } from './replay.js';
import { amongReports, showRecording } from './report-file.js';
import { loadScenario } from './scenario-file.js';
import { textTable } from './text-table.js';

/** What a replay on real nodes needs to know. */
export interface RealFlags {
  readonly json?: boolean;
  readonly format?: string;
  /** Writes the page of the recorded run, and opens it. */
  readonly open?: boolean;
}

/** Schedules that are played at one time: they mostly wait. */
const AT_ONCE = 2;
const MOST_ROWS = 40;
const LONGEST_DETAIL = 400;

/** Plays one schedule on real nodes, and compares the outcome with the simulator. */
export async function replayReal(name: string, flags: RealFlags, io: Io): Promise<ExitCode> {
  const { id, schedule, scenario } = loadScenario(name, io.cwd, io.command);
  const line = new ProgressLine(io);
  line.show(`${id}: looking for a pace at which its verdict stands, and playing it on real nodes`);
  const outcome = await realOutcome(id, schedule, scenario?.expect ?? { verdict: 'safe' }, io.signal);
  line.end();
  if (flags.json) writeJson(io, 'lockstep.replay-real/1', outcomeJson(outcome));
  else if (outcome.play !== null && (flags.open || flags.format === 'html')) {
    const input = recordingOfPlay(id, scenario, outcome.play, replayCommand(io, name, '--real', '--open'));
    if (flags.open) showRecording(amongReports(`${id}-real`), input, io);
    else io.stdout.write(htmlReport(recordingOf(input)));
  } else {
    io.stdout.write(outcomeText(titleOf(id, scenario), outcome, hasColour(io) ? ANSI : PLAIN));
  }
  return io.signal.aborted ? Exit.interrupted : codeOf(outcome);
}

/** What was seen of a play, as a page has it. */
function recordingOfPlay(id: string, scenario: Scenario | null, play: RealPlay, replay: string): RecordingInput {
  const { schedule, observation, found } = play;
  return {
    id: `${id}-real`,
    title: `${scenario?.title ?? 'a schedule'}, on real nodes`,
    story: `${scenario?.story ?? ''} Played on ${observation.nodes}, at a pace that leaves room for what a machine adds to times.`,
    replay,
    schedule,
    hash: '',
    taken: takenOfObserved(schedule, observation, found),
    why: 'it was played on real nodes. What clients did and were told was taken down, and what was done to the nodes; messages and keys were not.',
  };
}

/** Plays the whole catalogue. */
export async function replayAllReal(flags: RealFlags, io: Io): Promise<ExitCode> {
  const outcomes = await playCatalogue(io);
  const { agreed, played, total } = tally(outcomes);
  if (flags.json)
    writeJson(io, 'lockstep.replay-all-real/1', { scenarios: outcomes.map(outcomeJson), agreed, played, total });
  else io.stdout.write(`${allText(outcomes)}\n`);
  if (io.signal.aborted) return Exit.interrupted;
  if (outcomes.some(({ status }) => status === 'differed')) return Exit.notReproduced;
  return agreed === played ? Exit.ok : Exit.inconclusive;
}

/** What came of all scenarios, in the order of the catalogue; as far as it got, if it is interrupted. */
export async function playCatalogue(io: Io): Promise<RealOutcome[]> {
  const scenarios = loadCatalogue();
  const outcomes: (RealOutcome | undefined)[] = scenarios.map(() => undefined);
  const line = new ProgressLine(io);
  let next = 0;
  const work = async (): Promise<void> => {
    for (let i = next++; i < scenarios.length && !io.signal.aborted; i = next++) {
      const scenario = scenarios[i];
      if (scenario === undefined) return;
      outcomes[i] = await realOutcome(scenario.id, scenario.schedule, scenario.expect, io.signal);
      const done = outcomes.filter((outcome) => outcome !== undefined).length;
      line.show(`${done} of ${plural(scenarios.length, 'scenario')} on real nodes, last ${scenario.id}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  line.end();
  return outcomes.flatMap((outcome) => outcome ?? []);
}

/** How many were played, and how many of those agreed. */
function tally(outcomes: readonly RealOutcome[]): { agreed: number; played: number; total: number } {
  const agreed = outcomes.filter(({ status }) => status === 'agreed').length;
  const played = outcomes.filter(({ status }) => status !== 'refused').length;
  return { agreed, played, total: outcomes.length };
}

function codeOf({ status }: RealOutcome): ExitCode {
  if (status === 'agreed') return Exit.ok;
  return status === 'differed' ? Exit.notReproduced : Exit.inconclusive;
}

function outcomeJson({ id, simulated, status, reason, play }: RealOutcome): object {
  if (play === null) return { id, simulated, real: null, status, reason };
  const { found, observation, schedule } = play;
  return {
    id,
    simulated,
    real: found.verdict,
    status,
    reason,
    violations: found.violations.map(({ property, resource, detail }) => ({ property, resource, detail })),
    claims: observation.claims,
    availability: [...observation.down, ...observation.blocked],
    lateness: observation.lateness,
    nodes: observation.nodes,
    schedule,
    history: observation.history,
  };
}

function outcomeText(title: string, outcome: RealOutcome, paint: Painter): string {
  const { play, reason, simulated, status } = outcome;
  const verdict = play === null ? '' : play.found.verdict;
  const last = {
    agreed: `✓ agreed: ${verdict} on real nodes, ${simulated} in the simulator`,
    differed: `✗ differs: ${reason}`,
    noisy: `? the machine was too slow to tell: ${reason}`,
    refused: `? not played: ${reason}`,
  }[status];
  const painted = { agreed: paint.good, differed: paint.bad, noisy: PLAIN.bad, refused: PLAIN.bad }[status];
  const rows = [
    paint.strong(title),
    ...(play === null ? [] : playRows(play)),
    ...wrap(last, WIDTH - 2).map((row) => `  ${painted(row)}`),
  ];
  return `${rows.join('\n')}\n`;
}

function playRows({ observation, ttlMs, found }: RealPlay): string[] {
  const { history, nodes, endUs, lateness, down, blocked } = observation;
  const ms = (us: number): string => String(Math.round(us / 1000));
  const rows = history.flatMap((line) => {
    const words = wordsOf(line);
    return words === null ? [] : [[ms(line.atUs), line.lock.split('/')[0] ?? '', words]];
  });
  const shown =
    rows.length > MOST_ROWS ? [...rows.slice(0, MOST_ROWS), ['', '', `… and ${rows.length - MOST_ROWS} more`]] : rows;
  const spans = [
    ...down.map(({ fromUs, toUs }) => `  no quorum was up from ${ms(fromUs)} to ${ms(toUs)} ms`),
    ...blocked.map(({ fromUs, toUs }) => `  orphaned keys were in the way from ${ms(fromUs)} to ${ms(toUs)} ms`),
  ];
  return [
    `  on ${nodes}, ${ms(endUs)} ms; a key that lives ${ttlMs.written} ms in the schedule lives ${ttlMs.real} ms`,
    '',
    ...textTable(['t/ms', 'who', 'what'], shown)
      .split('\n')
      .map((row) => `  ${row}`),
    '',
    ...found.violations.map(({ property, detail }) => `  ${property}: ${printable(detail, LONGEST_DETAIL)}`),
    ...spans,
    `  latest event ${ms(lateness.eventUs)} ms, slowest connection ${ms(lateness.answerUs)} ms, slowest start ${ms(lateness.startUs)} ms`,
  ];
}

/** A line in words; `null` for what only its end tells. */
function wordsOf(line: LockLine): string | null {
  const valid = (us: number): string => `valid for ${Math.round(us / 1000)} ms`;
  switch (line.type) {
    case 'acquire':
      return `asks for ${line.resources.join(', ')}`;
    case 'acquired':
      return `holds, ${valid(line.validUs)}`;
    case 'failed':
      return 'gives up';
    case 'extended':
      return `extends, ${valid(line.validUs)}`;
    case 'not-extended':
      return `cannot extend, ${valid(line.validUs)}`;
    case 'release':
      return 'releases';
    case 'write':
      return `its write reaches ${line.resource}`;
    default:
      return null;
  }
}

function allText(outcomes: readonly RealOutcome[]): string {
  const marks = { agreed: '✓', differed: '✗', noisy: '?', refused: '–' } as const;
  const table = textTable(
    ['id', 'simulated', 'on real nodes', ''],
    outcomes.map((it) => [it.id, it.simulated, it.play?.found.verdict ?? 'not played', marks[it.status]]),
  );
  const reasons = outcomes.flatMap(({ id, reason }) => (reason === null ? [] : wrap(`${id}: ${reason}`, WIDTH)));
  return [table, '', ...reasons, '', summary(outcomes)].join('\n');
}

/** The count in one sentence. */
export function summary(outcomes: readonly RealOutcome[]): string {
  const { agreed, played, total } = tally(outcomes);
  return `${played} of ${plural(total, 'scenario')} played on real nodes; ${agreed} of them agree with the simulator`;
}
