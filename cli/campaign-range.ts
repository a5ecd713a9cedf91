import { type RerunResult, rerunRange, violatingRuns } from '../campaign/index.js';
import { formatCount, plural } from '../text/format.js';
import type { QueueFlags } from './campaign-flags.js';
import { readParts } from './campaign-part-file.js';
import { opened } from './campaign-queue.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { type Io, writeJson } from './io.js';

/** Makes one range of a campaign again, alone, and says whether it comes to the same. */
export async function remake(index: number, parts: readonly string[], flags: QueueFlags, io: Io): Promise<ExitCode> {
  const remade =
    parts.length > 0 ? await rerunRange(readParts(parts, io.cwd), index) : await remadeOnQueue(index, flags, io);
  const { range, spec, digest, unit } = remade;
  const { runs, hash, near, violating } = unit.tally;
  const { name = '' } = spec.searches[range.search] ?? {};
  const isSame = digest === null || digest === hash;
  const shapes = unit.failures.map(({ shape }) => shape);
  if (flags.json) {
    const { from, to } = range;
    const result = { index, search: name, from, to, hash, digest, isSame, runs, near, violating, shapes };
    writeJson(io, 'lockstep.campaign-range/2', result);
  } else io.stdout.write(text(remade, name, isSame));
  return isSame ? Exit.ok : Exit.notReproduced;
}

async function remadeOnQueue(index: number, flags: QueueFlags, io: Io): Promise<RerunResult> {
  await using queued = await opened(flags, io);
  return await queued.again(index);
}

function text({ range, digest, unit }: RerunResult, name: string, isSame: boolean): string {
  const { hash, near } = unit.tally;
  const verdict =
    digest === null
      ? 'the file keeps no hash of this range alone'
      : isSame
        ? '✓ the same as before'
        : `✗ it came to ${digest} before`;
  return [
    `range ${range.index}: schedules ${formatCount(range.from + 1)} to ${formatCount(range.to)} of ${name}`,
    `hash ${hash}   ${verdict}`,
    `${plural(violatingRuns(unit.tally), 'violation')}, ${formatCount(near)} near`,
    ...unit.failures.map(({ shape }) => `  ${shape}`),
    '',
  ].join('\n');
}
