import { propertyLabel } from '../report/index.js';
import type { BoundDistance, Fact, MapOfPass, PassReport } from '../report/pass/index.js';
import { formatDurationMs } from '../scenarios/index.js';
import { untried } from '../search/coverage-labels.js';
import { assumptionBoundsOf, type CheckResult } from '../search/index.js';
import { sweep, sweepPlanOf } from '../search/safety-map/index.js';
import { formatCount, formatList, formatPercent, plural } from '../text/format.js';
import { type Plan, unjudged } from './check-plan.js';
import { assumed, configOf, exercised, isInClaim, meaning, neverHit, withstood } from './check-text.js';
import type { Io } from './io.js';
import { emptyPass, fearedChanges } from './pass-page.js';

/** What a search that found nothing comes to, for a page. */
export async function checkPass(plan: Plan, result: CheckResult, io: Io): Promise<PassReport> {
  const { faultModel, properties, insideOnly } = plan;
  const passed = result.verdict === 'passed' && !result.interrupted;
  return {
    ...emptyPass(io),
    subject: configOf(faultModel),
    verdict: passed ? 'passed' : result.interrupted ? 'stopped early' : result.verdict,
    tone: passed ? 'good' : 'open',
    sentence:
      `No violation of ${formatList([...properties, ...insideOnly].map(propertyLabel), 'or')} was found in ` +
      `${plural(result.runs, 'schedule')} with ${plural(result.events, 'event')}.`,
    bounds: boundsOf(plan, result),
    map: await mapOf(plan),
    tried: triedOf(plan, result),
    notTried: notTriedOf(plan, result),
    nearMisses: [
      { name: plural(result.near, 'schedule'), text: 'in which a claim was within 1 ms or one vote of a violation' },
    ],
    changes: fearedChanges(io),
    configuration: [
      { name: 'deployment', text: configOf(faultModel) },
      { name: 'assumed', text: assumed(faultModel).join('; ') },
      { name: 'search', text: `strategy ${plan.strategy}, seed ${result.seed}` },
      { name: 'hash of all schedules', text: result.hash },
    ],
    meaning: [meaning(plan, result)],
  };
}

/** How far what was tried went, for the TTL with which it went farthest. */
function boundsOf({ faultModel }: Plan, { strained }: CheckResult): BoundDistance[] {
  const { policy, ttlsMs, stretch, ratePpm, stepUs, restartDelayUs, persistence } = faultModel;
  const most = (shares: readonly number[]): number => Math.max(...shares);
  const all = ttlsMs.map((ttlMs) => assumptionBoundsOf(policy, ttlMs));
  const each = (figures: readonly string[]): string => formatList([...new Set(figures)], 'or');
  const atBound = (counts: { readonly runs: number; readonly atBound: number }): string =>
    counts.runs === 0
      ? ''
      : `${formatCount(counts.atBound)} of ${formatCount(counts.runs)} schedules came within 1 % of it.`;
  const ms = (us: number): string => `${formatDurationMs(us)} ms`;
  const upTo = (given: string | null, factor: number, bound: string): string =>
    given ?? (factor === 1 ? `up to ${bound}` : `${factor} of it`);
  const rates = each(all.map((it) => formatPercent(it.bothRatesPpm)));
  const steps = each(all.map((it) => ms(it.stepUs)));
  const delays = each(all.map((it) => ms(it.restartUs)));
  const kept = persistence === 'always';
  return [
    {
      name: 'clocks run wrong by',
      yours: upTo(ratePpm === null ? null : formatPercent(ratePpm), stretch['clock-drift'], rates),
      bound: rates,
      direction: 'at most',
      used:
        stretch['clock-drift'] === 0
          ? null
          : most(all.map((it) => (ratePpm === null ? stretch['clock-drift'] : ratePpm / it.bothRatesPpm))),
      note: atBound(strained['clock-drift']),
    },
    {
      name: 'clocks jump by, in all',
      yours: upTo(stepUs === null ? null : ms(stepUs), stretch['clock-step'], steps),
      bound: steps,
      direction: 'at most',
      used:
        stretch['clock-step'] === 0
          ? null
          : most(all.map((it) => (stepUs === null ? stretch['clock-step'] : stepUs / it.stepUs))),
      note: atBound(strained['clock-step']),
    },
    {
      name: kept ? 'a node is back, with its keys, after' : 'a node is back, empty, after',
      yours:
        restartDelayUs === null
          ? stretch['restart-delay'] === 1
            ? `from ${delays} on`
            : `${stretch['restart-delay']} of it`
          : ms(restartDelayUs),
      bound: kept ? '0 ms' : delays,
      direction: 'at least',
      used:
        stretch['restart-delay'] === 0
          ? null
          : kept
            ? 0
            : most(
                all.map((it) =>
                  restartDelayUs === null ? stretch['restart-delay'] : it.restartUs / Math.max(1, restartDelayUs),
                ),
              ),
      note: atBound(strained['restart-delay']),
    },
  ];
}

function triedOf({ faultModel }: Plan, result: CheckResult): Fact[] {
  return [
    { name: 'withstood', text: withstood(faultModel) },
    { name: 'happened', text: exercised(result, (it) => !isInClaim(it)) },
    { name: 'while a lock was held', text: exercised(result, isInClaim) },
  ].filter(({ text }) => text !== '');
}

function notTriedOf(plan: Plan, { notHit }: CheckResult): Fact[] {
  const { faultModel, properties, insideOnly } = plan;
  const kinds = untried(faultModel);
  const open = unjudged(properties, insideOnly).map(propertyLabel);
  return [
    { name: 'faults', text: formatList(kinds) || 'none that this search knows' },
    { name: 'asked for, never met', text: neverHit(faultModel, notHit) },
    { name: 'properties', text: formatList(open) || 'none that this search can judge' },
    { name: 'how to', text: '--faults +kind=1 adds a fault, --properties names what must hold' },
  ];
}

/** More TTLs or rates say no more at the size of a page. */
const ACROSS = 25;
const UP = 17;
const US = 1_000;

/** Drift against TTL for this deployment, where its client decides as the lock of this project does. */
async function mapOf({ faultModel }: Plan): Promise<MapOfPass | null> {
  const { policy, nodes, ttlsMs, ratePpm, stretch } = faultModel;
  if (policy.deviations.length > 0) return null;
  const { driftPpm, driftUs } = policy.settings;
  const ttlMs = ttlsMs[Math.floor(ttlsMs.length / 2)] ?? ttlsMs[0];
  const ttl = ttlMs * US;
  const { x, y, base } = sweepPlanOf(['ttl', 'drift=0..1%'], () => ({ across: ACROSS, up: UP }));
  const map = await sweep({
    x,
    y,
    base: { ...base, nodes, ttl, 'drift-allowance': driftPpm, 'fixed-allowance': driftUs },
  });
  const tried =
    stretch['clock-drift'] === 0
      ? 0
      : Math.floor(stretch['clock-drift'] * assumptionBoundsOf(policy, ttlMs).bothRatesPpm);
  return {
    map,
    here: {
      x: ttl,
      y: ratePpm ?? tried,
      label: ratePpm === null && stretch['clock-drift'] > 0 ? 'tried up to here' : 'you are here',
    },
    sentence: `How wrong clocks may run for each TTL, with the worst that can happen; the mark is at a TTL of ${formatCount(ttlMs)} ms.`,
  };
}
