import { deviates, policyOf } from '../../deviations/index.js';
import { judgeObserved, showsOutside } from '../../properties/history/observed.js';
import { judge } from '../../properties/judge.js';
import type { PropertyId, Schedule } from '../../scenarios/index.js';
import { simulate, type TraceEvent } from '../../sim/index.js';
import { playVirtually } from './virtual-stage.js';

/*
 * What the simulator and the clients of the stage make of one schedule, in the same words: what is asked for, told and
 * written, what is sent, and what is violated of what shows from outside.
 */

const PROPERTIES: readonly PropertyId[] = [
  'mutual-exclusion',
  'no-stale-write',
  'acquisition',
  'extension',
  'continuity',
  'loss-notified',
];
const TYPES: readonly string[] = ['acquire', 'acquired', 'failed', 'extended', 'release', 'write'];

/** What the simulator makes of it. */
export function simulated(plan: Schedule): string[] {
  const policy = policyOf(plan.policy);
  const types: Readonly<Record<string, string>> = {
    call: 'acquire',
    claim: 'acquired',
    'acquire-failed': 'failed',
    extended: 'extended',
    [policy.habits.beliefEnds === 'at-release' ? 'release-call' : 'released']: 'release',
    'write-arrived': 'write',
  };
  const { trace } = simulate(plan, { trace: true });
  const lines = trace.flatMap(({ kind, atUs, process, detail }) => {
    const type = types[kind];
    if (type === undefined || (type === 'release' && mayGiveUp(plan))) return [];
    const valid =
      'deadlineUs' in detail && !clocksChange(plan) ? ` ${Math.max(0, Number(detail.deadlineUs) - atUs)}` : '';
    return [`${Math.round(atUs / 1000)} ${process}/${detail.lock} ${type}${valid}`];
  });
  const sent = trace
    .filter((it) => (it.kind === 'send' || it.kind === 'lost') && it.process === it.detail.client)
    .map(sending);
  const violated = judge(plan, PROPERTIES)
    .violations.filter((it) => showsOutside(it, policy))
    .map(({ property }) => property);
  return inOrder(lines, sent, violated);
}

function sending({ atUs, detail }: TraceEvent): string {
  const { client, lock, operation, attempt, round, node, token } = detail;
  return `${Math.round(atUs / 1000)} ${client}/${lock} ${operation} ${attempt} ${round} ${node} ${token}`;
}

/** What the clients of the stage make of it. */
export function staged(plan: Schedule): string[] {
  const { history, told, unfounded, sent } = playVirtually(plan);
  const lines = told.flatMap((line) => {
    if (!TYPES.includes(line.type) || (line.type === 'release' && mayGiveUp(plan))) return [];
    const valid =
      (line.type === 'acquired' || line.type === 'extended') && !clocksChange(plan) ? ` ${line.validUs}` : '';
    return [`${Math.round(line.atUs / 1000)} ${line.lock} ${line.type}${valid}`];
  });
  const nothing = {
    down: [],
    blocked: [],
    unsupported: [],
    waiting: [],
    patienceUs: plan.untilUs,
    endUs: plan.untilUs,
  };
  return inOrder(lines, sent, judgeObserved({ ...nothing, history, unfounded }, PROPERTIES).properties);
}

/** Whether a belief can end without a release; a history says that it was released. */
function mayGiveUp({ faults, policy }: Schedule): boolean {
  return faults.some(({ kind }) => kind === 'client-crash') || deviates(policyOf(policy), 'failure-gives-up');
}

/** Whether clocks of clients show another time than they would: a trace has the end of a claim as its client reads it. */
function clocksChange({ faults }: Schedule): boolean {
  return faults.some(({ kind }) => kind === 'clock-step' || kind === 'suspend');
}

/** Tokens by who of them is the how-manieth of its client. */
function inOrder(lines: readonly string[], sent: readonly string[], violated: readonly PropertyId[]): string[] {
  const tokens = new Map<string, string[]>();
  const named = sent.map((line) => {
    const words = line.split(' ');
    const [client = '', token = ''] = [words[1]?.split('/')[0], words.pop()];
    const known = tokens.get(client) ?? [];
    tokens.set(client, known);
    if (!known.includes(token)) known.push(token);
    return `${words.join(' ')} t${known.indexOf(token)}`;
  });
  const properties = [...new Set(violated)].filter((property) => PROPERTIES.includes(property));
  return [...[...lines, ...named].sort(), ...properties.sort()];
}
