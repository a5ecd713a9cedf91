import { driftAllowanceUs, hasFencingTokens, quorumOf, statedDrift } from '../deviations/index.js';
import type { CoveragePoint } from '../properties/index.js';
import { type Painter, PLAIN, propertyLabel } from '../report/index.js';
import { WIDTH } from '../report/table.js';
import { formatDurationMs } from '../scenarios/index.js';
import { untried } from '../search/coverage-labels.js';
import { type FaultModel, mostDownOf } from '../search/fault-model.js';
import {
  assumptionBoundsOf,
  type BoundId,
  type CheckResult,
  COVERAGE_LABELS,
  disabledPoints,
  greatestShare,
} from '../search/index.js';
import { formatCount, formatList, formatPercent, plural, wrap } from '../text/format.js';
import { type Plan, unjudged } from './check-plan.js';

const LABEL_WIDTH = 14;
/** Of what is no part of a picture. */
export const LINE_WIDTH = 100;

/** What a search is about to do, in one line. */
export function startLine(plan: Plan, width: number): string {
  const { faultModel, seed, runs, budgetMs, strategy } = plan;
  const how = [
    runs === null ? '' : `${formatCount(runs)} schedules`,
    budgetMs === null ? '' : `${runs === null ? '' : 'or '}${formatDurationMs(budgetMs * 1000)} ms`,
  ];
  const what = judgedWords(plan);
  const whose = strategy === 'combination' ? '' : `, strategy ${strategy}`;
  const text =
    `Searching ${how.filter((it) => it !== '').join(' ')} for a violation of ${what}: ` +
    `${plural(faultModel.clients, 'client')}, ${plural(faultModel.nodes, 'node')}, seed ${seed}${whose}.`;
  return `${wrap(text, width).join('\n')}\n`;
}

/** A search that found nothing: what it went through, under which assumptions, and what that means. */
export function passText(plan: Plan, result: CheckResult, paint: Painter, terminal: number): string {
  const width = Math.min(WIDTH, terminal);
  const wrapped = (text: string): string[] => (text === '' ? [] : wrap(text, width - LABEL_WIDTH - 2));
  const { faultModel } = plan;
  const mark = markOf(result, paint);
  const seconds = (result.elapsedMs / 1000).toFixed(1);
  const told =
    `${plural(result.runs, 'schedule')}, ${plural(result.events, 'event')} in ${seconds} s${helped(result)}   ` +
    `seed ${result.seed}   hash ${result.hash}`;
  const [first = '', ...more] = wrap(told, terminal - markOf(result, PLAIN).length - 3);
  const lines = [
    `${mark}   ${first}`,
    ...more.map((line) => `  ${line}`),
    ...wrap(configOf(faultModel), width - 2).map((line) => `  ${line}`),
    '',
    ...labelled('assumed', assumed(faultModel).flatMap(wrapped)),
    ...labelled('withstood', wrapped(withstood(faultModel))),
    ...labelled('exercised', wrapped(exercised(result, (it) => !isInClaim(it)))),
    ...labelled('in a claim', wrapped(exercised(result, isInClaim))),
    ...labelled('at the edge', wrapped(strained(result))),
    ...labelled('never hit', wrapped(neverHit(faultModel, result.notHit))),
    ...labelled('not tried', wrapped(untriedWords(faultModel))),
    ...labelled('not judged', wrapped(unjudgedWords(plan))),
    ...labelled('this means', wrapped(meaning(plan, result))),
  ];
  return `${lines.join('\n')}\n`;
}

function markOf({ verdict, interrupted }: CheckResult, paint: Painter): string {
  if (verdict !== 'passed') return paint.bad(`? ${verdict}`);
  return interrupted ? '– stopped early, nothing found' : paint.good('✓ passed');
}

/** What might have been met. */
export function neverHit(faultModel: FaultModel, notHit: readonly CoveragePoint[]): string {
  const left = disabledPoints(faultModel);
  return (
    formatList(notHit.filter((it) => !left.includes(it)).map((it) => COVERAGE_LABELS[it])) ||
    'none: everything that was tried happened'
  );
}

/** What the search leaves out, so that nobody takes it for tried. */
export function untriedWords(faultModel: FaultModel): string {
  return formatList(untried(faultModel)) || 'nothing that this search knows';
}

/** What nothing is said about. */
export function unjudgedWords({ properties, insideOnly }: Plan): string {
  const outside =
    insideOnly.length === 0 ? [] : [`${formatList(insideOnly.map(propertyLabel))} beyond the assumptions of the lock`];
  const never = unjudged(properties, insideOnly);
  return formatList([...outside, ...never.map(propertyLabel)]) || 'nothing that this search can judge';
}

/** `mutual exclusion, or of quorum-backed within the assumptions`. */
function judgedWords({ properties, insideOnly }: Plan): string {
  const always = formatList(properties.map(propertyLabel), 'or');
  if (insideOnly.length === 0) return always;
  return `${always}, or of ${formatList(insideOnly.map(propertyLabel), 'or')} within the assumptions`;
}

/** Said only where there was help: it changes nothing but the time. */
function helped({ workers }: CheckResult): string {
  return workers === 1 ? '' : ` on ${plural(workers, 'worker')}`;
}

function labelled(label: string, lines: readonly string[]): string[] {
  return lines.map((line, index) => `  ${(index === 0 ? label : '').padEnd(LABEL_WIDTH)}${line}`);
}

/** The deployment, in one line. */
export function configOf({ nodes, clients, ttlsMs, policy, persistence }: FaultModel): string {
  const ttl = formatList(ttlsMs.map(formatCount), 'or');
  const drift = statedDrift(policy);
  const wanted = policy.settings.votesWanted === 'quorum' ? '' : `, votes wanted ${policy.settings.votesWanted}`;
  return (
    `${plural(nodes, 'node')}, quorum ${quorumOf(policy, nodes)}${wanted}, ${plural(clients, 'client')}, ttl ${ttl} ms, ` +
    `drift ${formatPercent(drift.driftPpm)} + ${formatDurationMs(drift.driftUs)} ms, persistence ${persistence}`
  );
}

/** What the search kept to, with figures for each TTL; and what the lock assumes, where the person chose otherwise. */
export function assumed(faultModel: FaultModel): string[] {
  const { policy, stretch, ttlsMs, persistence } = faultModel;
  const bounds = ttlsMs.map((ttlMs) => assumptionBoundsOf(policy, ttlMs));
  const each = (figures: readonly number[], word = 'or'): string =>
    formatList([...new Set(figures.map(formatDurationMs))], word);
  const lines: string[] = [];
  if (stretch['clock-drift'] > 0) {
    const ppm = formatList([...new Set(bounds.map((it) => formatCount(it.bothRatesPpm)))], 'or');
    lines.push(
      faultModel.ratePpm === null
        ? `clocks run right to within ${ppm} ppm`
        : `clocks run wrong by ${formatCount(faultModel.ratePpm)} ppm (the lock assumes up to ${ppm})`,
    );
  }
  if (stretch['clock-step'] > 0) {
    const allowance = each(ttlsMs.map((ttlMs) => driftAllowanceUs(policy, ttlMs * 1000)));
    lines.push(
      faultModel.stepUs === null
        ? `clocks jump by ${allowance} ms in all, or less`
        : `clocks jump by ${formatDurationMs(faultModel.stepUs)} ms (the lock assumes up to ${allowance})`,
    );
  }
  if (stretch['restart-delay'] > 0 && mostDownOf(faultModel) > 0) {
    const delay = each(bounds.map((it) => it.restartUs));
    const memory = persistence === 'always' ? 'with all their keys' : 'empty';
    lines.push(
      faultModel.restartDelayUs === null
        ? `nodes that crash are back ${memory} after ${delay} ms, or later`
        : `nodes that crash are back ${memory} after ${formatDurationMs(faultModel.restartDelayUs)} ms` +
            (persistence === 'always' ? '' : ` (the lock assumes ${delay} or later)`),
    );
  }
  if (stretch['data-loss'] > 0) lines.push('nodes forget at once, but no more of them than a claim has votes to spare');
  if (faultModel.counters && hasFencingTokens(policy)) {
    lines.push('a quorum of nodes knows its fencing counter, whatever the others lose or bring back');
  }
  if (stretch['write-delay'] > 0) lines.push('writes arrive within the validity that they were checked for');
  if (ttlsMs.length > 1 && lines.length > 0) lines.push('(a figure for each ttl; a run stresses one of these at most)');
  return lines.length === 0 ? ['right clocks, and nodes that do not forget'] : lines;
}

/** Trouble that a lock has to withstand at any time. */
export function withstood(faultModel: FaultModel): string {
  const {
    pauses,
    suspends,
    wallSteps,
    clientCrashes,
    partitions,
    lossPpm,
    duplicatePpm,
    spikePpm,
    failovers,
    refusals,
  } = faultModel;
  const counts = [
    ...downWords(faultModel),
    pauses > 0 ? plural(pauses, 'pause') : '',
    suspends > 0 ? plural(suspends, 'suspend') : '',
    wallSteps > 0 ? plural(wallSteps, 'step of a wall clock', 'steps of wall clocks') : '',
    clientCrashes > 0 ? plural(clientCrashes, 'dead client') : '',
    partitions > 0 ? plural(partitions, 'partition') : '',
    failovers > 0 ? plural(failovers, 'failover') : '',
    refusals > 0 ? plural(refusals, 'node that answers with errors', 'nodes that answer with errors') : '',
  ].filter((it) => it !== '');
  const shares = [
    lossPpm > 0 ? `${formatPercent(lossPpm)} lost` : '',
    duplicatePpm > 0 ? `${formatPercent(duplicatePpm)} copied` : '',
    spikePpm > 0 ? `${formatPercent(spikePpm)} held up` : '',
  ].filter((it) => it !== '');
  const parts = [
    counts.length === 0 ? '' : `up to ${formatList(counts)} a run`,
    shares.length === 0 ? '' : `messages ${formatList(shares)}`,
  ].filter((it) => it !== '');
  if (faultModel.outages) parts.push('in some runs a minority of nodes is out of order throughout');
  if (parts.length > 0) return parts.join('; ');
  return Object.values(faultModel.stretch).some((factor) => factor > 0) ? 'no other faults' : 'no faults at all';
}

/** Crashes and losses of power; the default has one limit for both. */
function downWords({ crashes, powerLosses, mostDown }: FaultModel): string[] {
  if (crashes > 0 && powerLosses > 0 && mostDown !== null) {
    const most = Math.min(crashes + powerLosses, mostDown);
    return [plural(most, 'crash or loss of power', 'crashes or losses of power')];
  }
  return [
    crashes > 0 ? plural(crashes, 'crash', 'crashes') : '',
    powerLosses > 0 ? plural(powerLosses, 'loss of power', 'losses of power') : '',
  ];
}

/** What happened, with how often. */
export function exercised({ exercised: counts }: CheckResult, which: (situation: CoveragePoint) => boolean): string {
  const hit = (Object.keys(COVERAGE_LABELS) as CoveragePoint[]).filter((it) => which(it) && counts[it] > 0);
  return formatList(
    hit.map((it) => `${formatCount(counts[it])} ${COVERAGE_LABELS[it].replace(' inside a claim', '')}`),
  );
}

/** What happened while a client believed that it held a lock, and therefore mattered. */
export function isInClaim(situation: CoveragePoint): boolean {
  return situation.endsWith('InClaim');
}

const BOUND_LABELS: Readonly<Record<BoundId, string>> = {
  'clock-drift': 'clock rates',
  'clock-step': 'clock steps',
  'restart-delay': 'restart delays',
  'data-loss': 'data loss',
  'write-delay': 'late writes',
};

function strained({ strained: counts, near }: CheckResult): string {
  const hit = (Object.keys(BOUND_LABELS) as BoundId[]).filter((it) => counts[it].runs > 0);
  const parts = hit.map(
    (it) => `${BOUND_LABELS[it]} ${formatCount(counts[it].atBound)} of ${formatCount(counts[it].runs)}`,
  );
  return (
    (parts.length === 0 ? '' : `${parts.join(', ')} schedules are within 1 % of the bound, or at it; `) +
    `in ${formatCount(near)} a claim was within 1 ms or one vote of a violation`
  );
}

/** What a pass means, and what not. */
export function meaning(plan: Plan, result: CheckResult): string {
  const what = judgedWords(plan);
  if (result.verdict === 'inconclusive') {
    return `nothing can be said about ${what}: ${result.reason ?? 'too little happened'}. More --runs may help.`;
  }
  const stopped = result.interrupted ? 'It was stopped early. ' : '';
  const share =
    `Fewer than ${shareWords(greatestShare(result.runs))} of the schedules that this search draws do, at 95 %; that is ` +
    'not a share of your production, and not a proof.';
  return `${stopped}None of these schedules violates ${what}. ${share}`;
}

/** Two digits, rounded up. */
function shareWords(share: number): string {
  const percent = share * 100;
  const digits = Math.max(0, 1 - Math.floor(Math.log10(percent)));
  const unit = 10 ** digits;
  return `${(Math.ceil(percent * unit) / unit).toFixed(digits)} %`;
}
