import { ANSI, compare, formatDiff, type Named, PLAIN, partingSentence, type ReportInput } from '../report/index.js';
import { WIDTH } from '../report/table.js';
import { wrap } from '../text/format.js';
import { printable } from '../text/printable.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { ReplayFlags } from './flags.js';
import { hasColour, type Io, writeJson } from './io.js';
import { type Replayed, runAgain, shownOf } from './replay.js';
import { sceneShown, writeForm } from './replay-formats.js';
import { amongReports, showReport } from './report-file.js';
import { loadScenario } from './scenario-file.js';

const LONGEST_NAME = 80;

/** One of the two runs: what came of it, its forms, and what it is called beside the other one. */
interface Side {
  readonly replayed: Replayed;
  readonly shown: ReportInput;
  readonly name: string;
}

/** Shows where two runs part: two schedules, or one as it was written and with mitigations. */
export function replayDiff(name: string, flags: ReplayFlags, io: Io): ExitCode {
  const [a, b] = sidesOf(name, flags, io);
  if (flags.json) writeJson(io, 'lockstep.diff/1', diffJson(a, b));
  else if (flags.open || flags.format === 'html') {
    const shown = { ...a.shown, other: { input: b.shown, names: [a.name, b.name] as const } };
    if (flags.open) showReport(amongReports(`${a.shown.id}-diff`), { ...shown, id: `${a.shown.id}-diff` }, io);
    else writeForm('html', shown, io);
  } else io.stdout.write(diffText(a, b, io));
  const failed = [a, b].some(({ replayed }) => replayed.difference !== null);
  return failed ? Exit.notReproduced : Exit.ok;
}

function sidesOf(name: string, flags: ReplayFlags, io: Io): [Side, Side] {
  const mitigations = flags.with ?? [];
  const loaded = loadScenario(name, io.cwd, io.command);
  const side = (of: string, called: string, given: readonly string[], from = loaded): Side => {
    const replayed = runAgain(from, given, false);
    return { replayed, shown: shownOf(of, from, replayed, io, given), name: printable(called, LONGEST_NAME) };
  };
  if (typeof flags.diff === 'string') {
    const other = loadScenario(flags.diff, io.cwd, io.command);
    return [side(name, `in ${loaded.id}`, []), side(flags.diff, `in ${other.id}`, [], other)];
  }
  return [side(name, 'as written', []), side(name, `with ${mitigations.join(' and ')}`, mitigations)];
}

function named({ shown, name }: Side): Named {
  return { scene: sceneShown(shown), name };
}

function diffText(a: Side, b: Side, io: Io): string {
  const paint = hasColour(io) ? ANSI : PLAIN;
  const ids = [...new Set([a.shown.id, b.shown.id])].map((id) => printable(id, LONGEST_NAME));
  const lines = [a, b].map(({ replayed, shown, name }) => [
    `  ${name}: ${replayed.judgement.verdict}`,
    ...wrap(sceneShown(shown).heading.config, WIDTH - 4).map((line) => paint.dim(`    ${line}`)),
  ]);
  return `${paint.strong(ids.join(' and '))}\n${lines.flat().join('\n')}\n\n${formatDiff(named(a), named(b), paint)}`;
}

function diffJson(a: Side, b: Side): object {
  const [left, right] = [named(a), named(b)];
  const comparison = compare(left.scene, right.scene);
  const first = comparison.rows[comparison.first];
  const about = ({ replayed, name }: Side): object => ({
    id: replayed.id,
    name,
    verdict: replayed.judgement.verdict,
    hash: replayed.judgement.run.hash,
    events: replayed.judgement.run.events,
  });
  return {
    a: about(a),
    b: about(b),
    parting: partingSentence(comparison, left, right),
    first: first === undefined ? null : { a: first.a?.seq ?? null, b: first.b?.seq ?? null },
    differing: comparison.rows.filter(({ same }) => !same).length,
  };
}
