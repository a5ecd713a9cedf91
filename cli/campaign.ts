import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  type CampaignPart,
  mergeParts,
  noPart,
  rangesDone,
  runShard,
  totalOf,
  violatingRuns,
} from '../campaign/index.js';
import { InputError } from '../scenarios/input-error.js';
import { formatCount, plural } from '../text/format.js';
import type { CampaignFlags, MergeFlags } from './campaign-flags.js';
import { writeCampaignPass } from './campaign-page.js';
import { readPart, readParts, writePart, writePartIfPossible } from './campaign-part-file.js';
import { specOf } from './campaign-spec.js';
import { partExit, partJson, partText } from './campaign-text.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { type Io, writeJson } from './io.js';
import { pageLine } from './pass-page.js';
import { ProgressLine } from './progress.js';
import { workersOf } from './workers.js';

const WHOLE = { number: 1, of: 1 };
/** Between two writes of the file, ms. */
const WRITE_EVERY_MS = 2_000;

/** Begins a campaign: on a queue, or right here. */
export async function campaign(flags: CampaignFlags, io: Io): Promise<ExitCode> {
  if (flags.queue !== undefined) {
    const { enqueue } = await import('./campaign-queue.js');
    return await enqueue(flags, io);
  }
  const spec = specOf(flags, io.cwd);
  const { shard = WHOLE, out } = flags;
  if (flags.shard !== undefined && out === undefined) {
    throw new InputError('--shard: where does it go? Add --out part.json, which "campaign merge" adds up');
  }
  if (flags.resume && out === undefined) throw new InputError('--resume: with which file? Add --out');
  const before =
    flags.resume && out !== undefined && existsSync(resolve(io.cwd, out)) ? readPart(out, io.cwd) : undefined;
  // Refuses a file of another campaign or engine.
  const from = before === undefined ? undefined : mergeParts(noPart(spec), before);
  // Now, and not after hours, it is said if that cannot be written.
  if (out !== undefined) writePart(from ?? noPart(spec), out, io.cwd);
  const line = new ProgressLine(io);
  const began = performance.now();
  const runsBefore = from === undefined ? 0 : totalOf(from).runs;
  let written = began;
  const part = await runShard({
    spec,
    shard,
    workers: await workersOf(flags.workers),
    ...(from === undefined ? {} : { from }),
    signal: io.signal,
    onPart: (now, of) => {
      line.show(progressText(now, of, (performance.now() - began) / 1000, runsBefore));
      if (out === undefined || performance.now() - written < WRITE_EVERY_MS) return;
      // A disk that is full for a while is said, and does not end hours of work.
      writePartIfPossible(now, out, io);
      written = performance.now();
    },
  });
  line.end();
  const isKept = out === undefined || writePartIfPossible(part, out, io);
  const isShard = shard.of > 1;
  const page = flags.report === undefined ? null : writeCampaignPass(flags.report, part, io);
  if (flags.json)
    writeJson(io, 'lockstep.campaign-result/1', { ...partJson(part), ...(page === null ? {} : { report: page }) });
  else io.stdout.write(`${partText(part, isShard ? `shard ${shard.number} of ${shard.of}` : '')}${pageLine(page)}`);
  return io.signal.aborted ? Exit.interrupted : unlessLost(partExit(part, isShard), isKept);
}

/** What was asked for is not there, though what came of it was told: only a violation says more than that. */
function unlessLost(code: ExitCode, isKept: boolean): ExitCode {
  return isKept || code === Exit.violated ? code : Exit.usage;
}

/** Adds up the files of shards. */
export function merge(paths: readonly string[], flags: MergeFlags, io: Io): ExitCode {
  const part = readParts(paths, io.cwd);
  const isKept = flags.out === undefined || writePartIfPossible(part, flags.out, io);
  if (flags.json) writeJson(io, 'lockstep.campaign-result/1', partJson(part));
  else io.stdout.write(partText(part, ''));
  return unlessLost(partExit(part, false), isKept);
}

function progressText(part: CampaignPart, of: number, seconds: number, runsBefore: number): string {
  const tally = totalOf(part);
  const done = rangesDone(part);
  const rate = (tally.runs - runsBefore) / seconds;
  const left = (part.spec.rangeRuns * (of - done)) / Math.max(1, rate);
  return (
    `${formatCount(done)} of ${plural(of, 'range')}, ${formatCount(Math.round(rate))} schedules/s, ` +
    `${formatCount(violatingRuns(tally))} violations, ${left.toFixed(0)} s left`
  );
}
