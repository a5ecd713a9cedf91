import { parseDeviation, policyPlus, policyWith, REFERENCE } from '../deviations/index.js';
import {
  type Checkpoint,
  DEFAULT_SCOPE,
  type Exploration,
  type ExploreOptions,
  type ExploreProgress,
  Explorer,
  type ExploreScope,
  everything,
  type LivenessResult,
  livenessOf,
  MOST_STATES,
  type NodeSetChange,
  scheduleOf,
  scopeError,
} from '../explore/index.js';
import { judge } from '../properties/index.js';
import { ANSI, formatTimeline, type Painter, PLAIN, propertyLabel } from '../report/index.js';
import type { PropertyId, Scenario, Schedule } from '../scenarios/index.js';
import { InputError, show } from '../scenarios/input-error.js';
import { meant } from '../scenarios/nearest.js';
import { MUTANTS } from '../search/index.js';
import { formatCount, plural } from '../text/format.js';
import { printable } from '../text/printable.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { readCheckpoint, writeCheckpoint } from './explore-checkpoint.js';
import { writeExplorePass } from './explore-page.js';
import { expectedOf, replayCommand, steppingCommand, writeFailure } from './failure-file.js';
import type { ExploreFlags } from './flags.js';
import { hasColour, type Io, writeJson } from './io.js';
import { pageLine } from './pass-page.js';
import { ProgressLine } from './progress.js';

/** What became of an exploration. */
interface Explored {
  readonly result: Exploration | LivenessResult;
  readonly seconds: number;
  readonly interrupted: boolean;
  /** Whether a checkpoint was written, to go on from. */
  readonly isKept: boolean;
}

/** Exhausts a space, and says what was in it. */
export async function exploreSpace(flags: ExploreFlags, io: Io): Promise<ExitCode> {
  const bounds = boundsOf(flags);
  const wrong = scopeError(bounds);
  if (wrong !== null) throw new InputError(wrong);
  const options = optionsOf(flags, bounds);
  const paint = hasColour(io) ? ANSI : PLAIN;
  if (!flags.json) io.stdout.write(`${boundsLine(bounds, flags)}\n`);
  const explored = await work(startOf(flags, options, io), flags, io);
  const { result } = explored;
  const schedule = result.path === null ? null : scheduleOf(bounds, result.path);
  const path = schedule === null ? null : writeFailure(scenarioOf(schedule, bounds, flags), io);
  const page =
    schedule === null
      ? writeExplorePass(explored, { scope: bounds, flags, line: boundsLine(bounds, flags) }, io)
      : null;
  if (flags.json) {
    const json = exploreJson(explored, bounds, flags, path, io);
    writeJson(io, 'lockstep.explore/1', page === null ? json : { ...json, report: page });
  } else {
    io.stdout.write(`${verdictLines(explored, flags, paint)}\n`);
    io.stdout.write(schedule === null ? pageLine(page) : counterexampleText(schedule, path, flags, paint, io));
  }
  if (result.verdict === 'violated') return Exit.violated;
  if (explored.interrupted) return Exit.interrupted;
  return result.verdict === 'safe' ? Exit.ok : Exit.inconclusive;
}

function boundsOf(flags: ExploreFlags): ExploreScope {
  const ttl = flags.ttl ?? DEFAULT_SCOPE.ttl;
  const { retries = 0, restartDelay = 'never', timeout = 'never' } = flags;
  const bug = flags.mutant === undefined ? {} : policyChange(flags.mutant);
  const change = changeOf(flags, ttl);
  const nodes = change === null ? DEFAULT_SCOPE.nodes : Math.max(...change.sets.flat()) + 1;
  return {
    ...DEFAULT_SCOPE,
    nodes: flags.nodes ?? nodes,
    clients: flags.clients ?? change?.sets.length ?? DEFAULT_SCOPE.clients,
    change,
    ttl,
    allowance: flags.driftAllowance ?? 0,
    drift: flags.drift ?? 0,
    crashes: flags.crash ?? 0,
    restartDelay: restartDelay === 'never' ? null : restartDelay === 'ttl' ? ttl : restartDelay,
    rollbacks: flags.rollback ?? 0,
    losses: flags.loss ?? 0,
    pauses: flags.pause ?? 0,
    retries: retries === 'forever' ? 0 : retries,
    forever: retries === 'forever',
    extensions: flags.extensions ?? 0,
    releases: flags.releases ?? false,
    link: flags.link ?? 'fifo',
    timeout: timeout === 'never' ? null : timeout,
    // Fencing tokens rise whatever the votes and the clocks do.
    votes: flags.property === 'fencing' ? 'granted' : 'asked',
    policy: flags.healing ? { ...bug, deviations: policyPlus(bug, HEALING).deviations } : bug,
  };
}

const HEALING = policyWith({ deviations: ['extension-heals'] });

function changeOf({ sets, wait, off, drain = false }: ExploreFlags, ttl: number): NodeSetChange | null {
  if (sets === undefined) {
    const odd = wait !== undefined ? '--wait' : off !== undefined ? '--off' : drain ? '--drain' : null;
    if (odd !== null)
      throw new InputError(`${odd} is about a change of nodes; name the nodes of each client, by --sets`);
    return null;
  }
  const waits = wait ?? (off !== undefined || drain ? 0 : null);
  return {
    sets: sets.map((it) => nodesIn('--sets', it)),
    wait: waits === 'ttl' ? ttl : waits,
    off: off === undefined ? [] : nodesIn('--off', off),
    drained: drain,
  };
}

function nodesIn(flag: string, text: string): number[] {
  if (!/^[0-6]+$/.test(text))
    throw new InputError(`${flag}: ${show(text)} names no nodes; write their digits, as in 013`);
  return [...text].map(Number);
}

/** What a planted bug changes of the policy. Where it changes the allowance for drift, that of the bounds gives way. */
function policyChange(id: string): ExploreScope['policy'] {
  const ids = MUTANTS.filter(({ change }) => change.world === undefined).map((it) => it.id);
  const change = MUTANTS.find((it) => it.id === id)?.change;
  if (change === undefined || change.world !== undefined) {
    throw new InputError(`--mutant: ${show(id)} is not a planted bug of the policy; ${meant(id, ids, 'there are')}`);
  }
  const isOfAllowance = change.deviations?.some((it) => parseDeviation(it).deviation.rule === 'allowance');
  const { driftPpm, driftUs } = REFERENCE.settings;
  return isOfAllowance ? { ...change, settings: { driftPpm, driftUs, ...change.settings } } : change;
}

function optionsOf(flags: ExploreFlags, bounds: ExploreScope): ExploreOptions {
  const mostStates = flags.maxStates ?? MOST_STATES;
  if (flags.liveness) return { ...everything(bounds), mostStates };
  return {
    bounds,
    mostStates,
    property: flags.property ?? 'mutual-exclusion',
    order: flags.order ?? 'breadth',
    symmetry: flags.symmetry,
    reduced: flags.reduction,
  };
}

/** Where to begin: at the beginning, or where the checkpoint's file says. */
function startOf(flags: ExploreFlags, options: ExploreOptions, io: Io): Explorer {
  const checkpoint: Checkpoint | null =
    flags.checkpoint === undefined ? null : readCheckpoint(flags.checkpoint, io.cwd);
  if (checkpoint === null) return new Explorer(options);
  try {
    return Explorer.resumed(options, checkpoint);
  } catch (error) {
    if (error instanceof RangeError) throw new InputError(`--checkpoint: ${flags.checkpoint}: ${error.message}`);
    throw error;
  }
}

const LOOKS = 1 << 13;

async function work(explorer: Explorer, flags: ExploreFlags, io: Io): Promise<Explored> {
  const line = new ProgressLine(io);
  const began = performance.now();
  const elapsed = (): number => (performance.now() - began) / 1000;
  const budget = flags.budget === undefined ? Number.POSITIVE_INFINITY : flags.budget / 1_000_000;
  const already = explorer.progress().states;
  const pace = new Pace();
  let more = true;
  let isKept = false;
  try {
    while (more && !explorer.full && elapsed() < budget && !io.signal.aborted) {
      more = explorer.work(LOOKS);
      line.show(
        `${progressText(explorer.progress(), already, elapsed())}, ${pace.left(explorer.progress(), elapsed())}`,
      );
      // Lets an interruption in.
      await new Promise((resolve) => setImmediate(resolve));
    }
  } catch (error) {
    if (error instanceof RangeError) throw new InputError(error.message);
    throw error;
  }
  if (more && flags.checkpoint !== undefined) {
    line.show('writing the checkpoint');
    isKept = writeCheckpoint(explorer.checkpoint(), flags.checkpoint, io);
  }
  if (flags.liveness && !more) line.show('going backwards from the claims');
  const result = flags.liveness ? livenessOf(explorer) : explorer.result();
  line.end();
  return { result, seconds: elapsed(), interrupted: io.signal.aborted, isKept };
}

/** How long the rest may take: what is waiting, and what that leads to if it goes on as in the last seconds. */
export class Pace {
  private readonly samples: { readonly looked: number; readonly states: number; readonly seconds: number }[] = [];

  left({ states, waiting }: Pick<ExploreProgress, 'states' | 'waiting'>, seconds: number): string {
    const now = { looked: states - waiting, states, seconds };
    this.samples.push(now);
    const since = this.samples[Math.max(0, this.samples.length - PACE_SAMPLES)] ?? now;
    if (this.samples.length > PACE_SAMPLES) this.samples.shift();
    const looked = now.looked - since.looked;
    const found = now.states - since.states;
    if (looked === 0 || found >= looked) return 'still growing';
    // Each state that is looked at leads to so many new ones, less than one, and these to others.
    const toLookAt = waiting / (1 - found / looked);
    return `about ${Math.ceil((toLookAt * (now.seconds - since.seconds)) / looked)} s left`;
  }
}

const PACE_SAMPLES = 40;

const MILLION = 1_000_000;

function progressText({ states, waiting, depth, bytes }: ExploreProgress, already: number, seconds: number): string {
  const rate = (states - already) / Math.max(0.001, seconds);
  return (
    `${formatCount(states)} states, ${formatCount(Math.round(rate))}/s, depth ${depth}, ` +
    `${formatCount(waiting)} waiting, ${Math.round(bytes / MILLION)} MB`
  );
}

function boundsLine(bounds: ExploreScope, flags: ExploreFlags): string {
  const { nodes, clients, ttl, crashes, restartDelay, rollbacks, drift, allowance } = bounds;
  const { losses, pauses, retries, extensions } = bounds;
  const restart = restartDelay === null ? 'for good' : `back after ${plural(restartDelay, 'tick')}`;
  const parts = [
    plural(nodes, 'node'),
    plural(clients, 'client'),
    ...(bounds.votes === 'granted' ? ['votes granted at once'] : [`ttl ${plural(ttl, 'tick')}`]),
    ...(crashes > 0 ? [`${plural(crashes, 'crash', 'crashes')} ${restart}`] : []),
    ...(rollbacks > 0 ? [plural(rollbacks, 'roll-back')] : []),
    ...(drift > 0 || allowance > 0 ? [`drift ${drift}, allowance ${allowance}`] : []),
    ...(losses > 0 ? [plural(losses, 'loss', 'losses')] : []),
    ...(pauses > 0 ? [plural(pauses, 'pause')] : []),
    ...(bounds.forever ? ['retries for ever'] : retries > 0 ? [plural(retries, 'retry', 'retries')] : []),
    ...(extensions > 0 ? [plural(extensions, 'extension')] : []),
    ...(bounds.releases ? ['releases'] : []),
    ...changeWords(bounds),
    ...(bounds.timeout === null ? [] : [`time-out ${plural(bounds.timeout, 'tick')}`]),
    ...(bounds.link === 'reordering' ? ['links that reorder'] : []),
    ...(flags.healing ? ['healing extensions'] : []),
    ...(flags.mutant === undefined ? [] : [`planted bug ${flags.mutant}`]),
  ];
  return `explore ${flags.liveness ? 'deadlock freedom' : propertyLabel(flags.property ?? 'mutual-exclusion')}: ${parts.join(', ')}`;
}

function changeWords({ change }: ExploreScope): string[] {
  if (change === null) return [];
  const { sets, wait, off, drained } = change;
  const names = (some: readonly number[]): string => some.map((it) => `n${it}`).join(' ');
  const begins = [...(off.length > 0 ? [`${names(off)} off`] : []), ...(drained ? ['old clients drained'] : [])];
  return [
    `told of ${sets.map(names).join(' | ')}`,
    ...(wait === null ? [] : [`${[...begins, 'then'].join(', ')} a wait of ${plural(wait, 'tick')}`]),
  ];
}

function verdictLines({ result, seconds, interrupted, isKept }: Explored, flags: ExploreFlags, paint: Painter): string {
  const { verdict, states, transitions, bytes, depth, waiting } = result;
  const counted = `${formatCount(states)} states, ${formatCount(transitions)} transitions, ${seconds.toFixed(1)} s, ${Math.round(bytes / states)} bytes a state`;
  if (verdict === 'safe') {
    const what = flags.liveness
      ? 'from every state somebody can still acquire'
      : 'the space is exhausted, nothing was violated';
    return `${paint.good('✓ safe')}   ${what}\n  ${counted}, depth ${depth}\n  Within these bounds and this model; docs/explorer.md says what that does not show.`;
  }
  if (verdict === 'violated') {
    const what = flags.liveness
      ? `nobody can ever acquire from ${formatCount('trapped' in result ? result.trapped : 0)} states; the nearest is ${depth} actions away`
      : `${flags.order === 'depth' ? 'a way' : 'the shortest way'} has ${depth} actions`;
    return `${paint.bad('✗ violated')}   ${what}\n  ${counted}\n`;
  }
  const next = isKept ? `; the same command goes on from ${printable(flags.checkpoint ?? '')}` : '';
  return `not exhausted   ${interrupted ? 'interrupted' : 'stopped at a limit'} with ${formatCount(waiting)} states not looked at, nothing found so far${next}\n  ${counted}, depth ${depth}`;
}

/** The way as a table, and the command that shows it again. */
function counterexampleText(
  schedule: Schedule,
  path: string | null,
  flags: ExploreFlags,
  paint: Painter,
  io: Io,
): string {
  const judgement = judge(schedule, flags.property === undefined ? [] : [flags.property], true);
  const replay = path === null ? 'none: its file could not be written' : replayCommand(io, path);
  const byHand = path === null ? '' : `  by hand       ${steppingCommand(io, path)}\n`;
  return `${formatTimeline(schedule, judgement, { paint })}\n  replay        ${replay}\n${byHand}`;
}

/** A counterexample in the form of a scenario, so that it is replayed as one that is known. */
function scenarioOf(schedule: Schedule, bounds: ExploreScope, flags: ExploreFlags): Scenario {
  const property = propertyOf(flags);
  const id = `explore-${nameOf(bounds, flags)}`;
  const what = boundsLine(bounds, flags);
  return {
    schema: 'lockstep.scenario/1',
    id,
    title: `${propertyLabel(property)} broken in a bounded world`,
    story: what,
    source: `found by lockstep ${what}`,
    schedule,
    expect: expectedOf(judge(schedule, [property]), property),
    flips: [],
    neighbours: [],
  };
}

/** What a space is looked through for. */
function propertyOf(flags: ExploreFlags): PropertyId {
  return flags.liveness ? 'deadlock-free' : (flags.property ?? 'mutual-exclusion');
}

function nameOf(bounds: ExploreScope, flags: ExploreFlags): string {
  const { nodes, clients, ttl, crashes, restartDelay, rollbacks, drift, allowance } = bounds;
  const what = flags.liveness ? 'liveness' : (flags.property ?? 'mutual-exclusion');
  return `${what}-n${nodes}c${clients}t${ttl}-crash${crashes}r${restartDelay ?? 'never'}${rollbacks > 0 ? `-rollback${rollbacks}` : ''}-drift${drift}a${allowance}${nameOfChange(bounds)}${flags.healing ? '-healing' : ''}${flags.mutant === undefined ? '' : `-${flags.mutant}`}`;
}

function nameOfChange({ change }: ExploreScope): string {
  if (change === null) return '';
  const { sets, wait, off, drained } = change;
  return `-sets${sets.map((it) => it.join('')).join('-')}${wait === null ? '' : `w${wait}`}${off.length > 0 ? `off${off.join('')}` : ''}${drained ? 'drained' : ''}`;
}

function exploreJson(
  { result, seconds }: Explored,
  bounds: ExploreScope,
  flags: ExploreFlags,
  path: string | null,
  io: Io,
): object {
  const { verdict, states, transitions, exhausted, bytes, depth } = result;
  return {
    verdict,
    states,
    transitions,
    seconds,
    exhausted,
    depth,
    bytesPerState: Math.round(bytes / states),
    ...('trapped' in result ? { trapped: result.trapped } : {}),
    bounds,
    ...(verdict === 'violated'
      ? {
          counterexample: {
            property: propertyOf(flags),
            schedule: path,
            actions: depth,
            replay: path === null ? null : replayCommand(io, path),
          },
        }
      : {}),
  };
}
