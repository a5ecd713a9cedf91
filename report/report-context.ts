import type { Judgement, Violation } from '../properties/index.js';
import type { Hold } from './holds.js';

/** A judgement as far as a story needs one: it may be of a run that was only taken down. */
export type Seen = Pick<Judgement, 'violations' | 'outages' | 'assumptionsBroken'> & {
  readonly run: Pick<Judgement['run'], 'trace'>;
};

/** What a story is told from. */
export interface ReportContext {
  readonly judgement: Seen;
  readonly claims: readonly Hold[];
  readonly tokenName: (token: number) => string;
  /** When the run ends, µs: what has gone wrong until then may go on. Default: it is not known. */
  readonly endUs?: number;
}

/** The claims that a violation is about, the earlier one first. */
export function claimsIn(violation: Violation, claims: readonly Hold[]): Hold[] {
  const found: Hold[] = [];
  for (const client of violation.clients) {
    const own = claims.filter(
      (it) => it.client === client && it.resources.includes(violation.resource) && !found.includes(it),
    );
    const now = own.findLast((it) => it.fromUs <= violation.atUs && violation.atUs < it.endUs) ?? own.at(-1);
    if (now !== undefined) found.push(now);
  }
  return found.sort((a, b) => a.seq - b.seq);
}
