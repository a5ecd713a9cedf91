import { setTimeout as sleep } from 'node:timers/promises';
import { type CampaignPart, CampaignRanges, rangesDone, totalOf, violatingRuns } from '../campaign/index.js';
import { type CampaignState, QueuedCampaign } from '../campaign/queue/index.js';
import { InputError, show } from '../scenarios/input-error.js';
import { formatCount, plural } from '../text/format.js';
import { printable } from '../text/printable.js';
import { withoutPasswords } from '../text/secrets.js';
import { shellCommand } from '../text/shell.js';
import { writeFailuresOf } from './campaign-failures.js';
import {
  type CampaignFlags,
  type QueueFlags,
  type ServeFlags,
  type StatusFlags,
  USUAL_NAME,
  type WorkFlags,
} from './campaign-flags.js';
import { readParts } from './campaign-part-file.js';
import { specOf } from './campaign-spec.js';
import { partJson, partText } from './campaign-text.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { type Io, writeJson } from './io.js';
import { ProgressLine } from './progress.js';
import { workersOf } from './workers.js';

const PORT = 8080;
const LONGEST_SHAPE = 400;
const LONGEST_WHY = 400;
/** Between the lines of a log, ms. */
const EVERY_MS = 10_000;

/** Puts a campaign into its queue: all of it that is not there or done. */
export async function enqueue(flags: CampaignFlags, io: Io): Promise<ExitCode> {
  if (flags.shard !== undefined || flags.out !== undefined || flags.resume) {
    throw new InputError('--queue: it keeps what comes of a campaign; leave out --shard, --out and --resume');
  }
  const spec = specOf(flags, io.cwd);
  await using queued = await opened(flags, io);
  const line = new ProgressLine(io);
  const added = await queued.enqueue(spec, (done, of) => line.show(`${formatCount(done)} of ${plural(of, 'range')}`));
  line.end();
  const { count: ranges } = new CampaignRanges(spec);
  const { name = USUAL_NAME } = flags;
  if (flags.json) writeJson(io, 'lockstep.campaign-enqueued/1', { name, ranges, added, engine: spec.engine });
  else {
    io.stdout.write(
      `${plural(added, 'range')} put into the queue, of ${formatCount(ranges)}; campaign ${show(name)}, engine ${spec.engine}.\n` +
        `next   ${shellCommand(io.command, 'campaign', 'work', '--name', name)} --queue …     on each machine\n` +
        `       ${shellCommand(io.command, 'campaign', 'status', '--name', name)} --queue …\n`,
    );
  }
  return Exit.ok;
}

/** Works for a campaign until it is over, or until it is asked to leave. */
export async function work(flags: WorkFlags, io: Io): Promise<ExitCode> {
  const workers = await workersOf(flags.workers);
  await using queued = await opened(flags, io);
  const line = new ProgressLine(io);
  const made = await queued.work(workers, io.signal, (ranges) => line.show(`${plural(ranges, 'range')} made here`));
  line.end();
  if (flags.json) writeJson(io, 'lockstep.campaign-work/1', { made, interrupted: io.signal.aborted });
  else io.stdout.write(`${plural(made, 'range')} made here${io.signal.aborted ? '' : '; the campaign is over'}.\n`);
  return io.signal.aborted ? Exit.interrupted : Exit.ok;
}

/** Says how far a campaign is, once or until it is over. */
export async function status(flags: StatusFlags, io: Io): Promise<ExitCode> {
  await using queued = await opened(flags, io);
  const state = flags.follow === undefined ? await queued.state() : await followed(queued, flags, io);
  if (flags.json) writeJson(io, 'lockstep.campaign-status/1', { ...partJson(state.part), ...withoutPart(state) });
  else io.stdout.write(`${partText(state.part, '')}${stateText(state)}`);
  if (state.mismatches > 0 || state.failed.length > 0) return Exit.internal;
  if (violatingRuns(totalOf(state.part)) > 0) return Exit.violated;
  return state.isOver ? Exit.ok : Exit.inconclusive;
}

/** A line now and then, for a log; returns when the campaign is over, or Ctrl-C was pressed. */
async function followed(queued: QueuedCampaign, { follow, json }: StatusFlags, io: Io): Promise<CampaignState> {
  // One JSON object is all that goes to stdout with `--json`.
  const log = json ? io.stderr : io.stdout;
  const everyMs = typeof follow === 'number' ? follow / 1000 : EVERY_MS;
  for (;;) {
    const state = await queued.state();
    if (state.isOver || io.signal.aborted) return state;
    log.write(`${new Date().toISOString().slice(0, 19)}Z  ${progressText(state)}\n`);
    await sleep(everyMs, undefined, { signal: io.signal }).catch(() => {});
  }
}

/** Writes the failures of a campaign, or of shards, as scenarios. */
export async function failures(paths: readonly string[], flags: QueueFlags, io: Io): Promise<ExitCode> {
  const part = paths.length > 0 ? readParts(paths, io.cwd) : await partOf(flags, io);
  const written = writeFailuresOf(part, io);
  for (const { path, shape } of written) {
    if (path !== null) io.stdout.write(`${printable(path)}   ${printable(shape, LONGEST_SHAPE)}\n`);
  }
  if (written.length === 0) io.stdout.write('No failures.\n');
  return written.some(({ path }) => path === null) ? Exit.usage : Exit.ok;
}

/** Serves the page of a campaign until it is interrupted. */
export async function serve(flags: ServeFlags, io: Io): Promise<ExitCode> {
  const { servePage } = await import('../campaign/serve/server.js');
  const { failureText: textOf } = await import('./campaign-failure-text.js');
  await using queued = await opened(flags, io);
  await using page = await servePage(queued, { name: flags.name ?? USUAL_NAME, port: flags.port ?? PORT, textOf });
  io.stdout.write(`${page.url}   (Ctrl-C ends it)\n`);
  await new Promise<void>((resolve) => {
    if (io.signal.aborted) resolve();
    io.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  return Exit.ok;
}

/** Forgets a campaign. */
export async function remove(flags: QueueFlags, io: Io): Promise<ExitCode> {
  await using queued = await opened(flags, io);
  await queued.remove();
  return Exit.ok;
}

/** The campaign that the flags name, on its server. */
export async function opened(flags: QueueFlags, io: Io): Promise<QueuedCampaign> {
  const url = typeof flags.queue === 'string' ? flags.queue : io.env.LOCKSTEP_QUEUE;
  if (url === undefined)
    throw new InputError('--queue: which Redis server? Give redis://host:port, or set LOCKSTEP_QUEUE');
  return await QueuedCampaign.at({ url, name: flags.name ?? USUAL_NAME });
}

async function partOf(flags: QueueFlags, io: Io): Promise<CampaignPart> {
  await using queued = await opened(flags, io);
  return (await queued.state()).part;
}

function withoutPart({ part: _, pace: __, ...state }: CampaignState): object {
  return state;
}

/** How far it is, in one line. */
function progressText(state: CampaignState): string {
  const { part } = state;
  const [done, { count }] = [rangesDone(part), new CampaignRanges(part.spec)];
  const violating = violatingRuns(totalOf(part));
  return (
    `${formatCount(done)} of ${plural(count, 'range')}, ${plural(violating, 'violation')} of ` +
    `${plural(part.failures.length, 'shape')}; ${workText(state)}`
  );
}

function workText({ waiting, active, workers, runsPerSecond, leftS }: CampaignState): string {
  return (
    `${plural(workers, 'machine')} at work, ${formatCount(active)} ranges in hand, ${formatCount(waiting)} waiting; ` +
    `${formatCount(Math.round(runsPerSecond))} schedules/s` +
    `${leftS === null ? '' : `, about ${formatCount(Math.ceil(leftS))} s left`}`
  );
}

function stateText(state: CampaignState): string {
  const { failed, mismatches, unkept, isOver } = state;
  const lines = [
    isOver ? 'The campaign is over.' : `${workText(state)}.`,
    ...(unkept > 0 ? [`${plural(unkept, 'failure')} of further shapes not kept.`] : []),
    ...(mismatches > 0
      ? [`${plural(mismatches, 'range')} came to different things when made twice: an error here.`]
      : []),
    ...failed.map(
      ({ index, why }) => `range ${index} could not be made: ${printable(withoutPasswords(why), LONGEST_WHY)}`,
    ),
  ];
  return `${lines.join('\n')}\n`;
}
