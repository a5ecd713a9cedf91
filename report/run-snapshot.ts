import { driftAllowanceUs, type Policy, policyOf, quorumOf } from '../deviations/index.js';
import type { Outage, Violation } from '../properties/index.js';
import { judge } from '../properties/judge.js';
import type { Schedule, Verdict } from '../scenarios/index.js';
import type { TraceEvent } from '../sim/index.js';
import { type Heading, headingOf } from './heading.js';
import { type Hold, holdsOf } from './holds.js';
import type { Seen } from './report-context.js';
import { mostSevere } from './story.js';
import { namesOf, tokenNames } from './tokens.js';

/** A run as it was taken down, as plain data: all that is needed to show it, wherever it was run. */
export interface RunSnapshot {
  /** The policy of its clients, in full. */
  readonly policy: Policy;
  /** Votes that make a lock on all nodes by that policy, and what it takes off each TTL for drift, µs. */
  readonly quorum: number;
  readonly allowances: readonly (readonly [ttlMs: number, us: number])[];
  /** Whose lock the clients ran: that of this project, which the policy describes, or somebody else's. */
  readonly lock: 'own' | 'foreign';
  readonly verdict: Verdict;
  readonly heading: Heading;
  readonly events: readonly TraceEvent[];
  /** From when on it is drawn, µs: later than its first events where these are there for what follows from them. */
  readonly fromUs: number;
  readonly claims: readonly Hold[];
  /** Letters of the tokens. */
  readonly names: readonly (readonly [token: number, name: string])[];
  /** What the picture is about: grave violations, else what there is. */
  readonly violations: readonly Violation[];
  readonly outages: readonly Outage[];
}

/** The policy of a schedule with what follows from it, so that who shows a run needs no rules of any client. */
export function figuresOf({
  policy: choice,
  cluster,
  clients,
}: Schedule): Pick<RunSnapshot, 'policy' | 'quorum' | 'allowances'> {
  const policy = policyOf(choice);
  const ttls = new Set(clients.flatMap(({ locks }) => locks.map(({ ttlMs }) => ttlMs)));
  return {
    policy,
    quorum: quorumOf(policy, cluster.nodes),
    allowances: [...ttls].map((ttlMs) => [ttlMs, driftAllowanceUs(policy, ttlMs * 1000)] as const),
  };
}

/** Takes down a run that was judged; runs it again if its trace was not kept. */
export function snapshotOf(
  schedule: Schedule,
  given: Seen & { readonly verdict: Verdict },
  lock: RunSnapshot['lock'] = 'own',
): RunSnapshot {
  const run = given.run.trace.length > 0 ? given.run : judge(schedule, [], true).run;
  const judgement = { ...given, run };
  const { verdict, outages, violations } = judgement;
  const claims = holdsOf(schedule, run.trace);
  return {
    ...figuresOf(schedule),
    lock,
    verdict,
    heading: headingOf(schedule, { judgement, claims, tokenName: tokenNames(run.trace) }, lock),
    events: run.trace,
    fromUs: 0,
    claims,
    names: [...namesOf(run.trace)],
    violations: mostSevere(violations),
    outages,
  };
}
