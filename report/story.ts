import type { Judgement, Outage, Violation } from '../properties/index.js';
import { formatDurationMs } from '../scenarios/index.js';
import type { TraceEvent } from '../sim/index.js';
import type { Claim } from './claims.js';
import { numberOf, textOf } from './details.js';
import { ASSUMPTION_WORDS, enumerate, nodeList } from './words.js';

/** A judgement as far as a story needs one: it may be of a run that was only taken down. */
export type Seen = Pick<Judgement, 'violations' | 'outages' | 'assumptionsBroken'> & {
  readonly run: Pick<Judgement['run'], 'trace'>;
};

/** What a story is told from. */
export interface Told {
  readonly judgement: Seen;
  readonly claims: readonly Claim[];
  readonly tokenName: (token: number) => string;
}

/** What a schedule breaks of what the lock takes for granted, in words; empty if nothing. */
export function assumptionLines(judgement: Pick<Judgement, 'assumptionsBroken'>): string[] {
  return judgement.assumptionsBroken.map((it) => `${it} (${ASSUMPTION_WORDS[it]})`);
}

/** Violations of `validity` are told of only where nothing worse happened. */
export function graveOf(violations: readonly Violation[]): readonly Violation[] {
  const grave = violations.filter((it) => it.property !== 'validity');
  return grave.length > 0 ? grave : violations;
}

/** The claims that a violation is about, the earlier one first. */
export function claimsIn(violation: Violation, claims: readonly Claim[]): Claim[] {
  const found: Claim[] = [];
  for (const client of violation.clients) {
    const own = claims.filter(
      (it) => it.client === client && it.resources.includes(violation.resource) && !found.includes(it),
    );
    const now = own.findLast((it) => it.fromUs <= violation.atUs && violation.atUs < it.endUs) ?? own.at(-1);
    if (now !== undefined) found.push(now);
  }
  return found.sort((a, b) => a.seq - b.seq);
}

/** One sentence on a violation: who, how long, and why if that can be told. */
export function violationSentence(violation: Violation, told: Told): string {
  const { resource, clients, atUs, untilUs } = violation;
  const length = `${formatDurationMs((untilUs ?? atUs) - atUs)} ms`;
  const why = reason(violation, told);
  const because = why === '' ? '.' : `: ${why}.`;
  switch (violation.property) {
    case 'mutual-exclusion':
      return new Set(clients).size === 1
        ? `${enumerate(clients.slice(0, 1))} held ${resource} twice for ${length}${because}`
        : `${clients.join(' and ')} both held ${resource} for ${length}${because}`;
    case 'validity':
      return `${violation.detail}, for ${length}${because}`;
    case 'action-in-belief':
      return writeSentence(violation, told);
    case 'lost-lock':
      return `${violation.detail}${because}`;
    default:
      // What is wrong is all in what the client or the command did itself.
      return `${violation.detail}.`;
  }
}

function reason(violation: Violation, told: Told): string {
  const [first, second] = claimsIn(violation, told.claims);
  if (first === undefined) return '';
  if (second !== undefined) return whyBoth(first, second, told);
  const lost = votersThatLost(first, violation.atUs, told);
  return whyGone(first, lost, nodeList(lost), told);
}

function whyBoth(first: Claim, second: Claim, told: Told): string {
  // Who saw clients only does not know who voted.
  if (first.voters.length === 0 && second.voters.length === 0) return '';
  const both = second.voters.filter((node) => first.voters.includes(node));
  if (both.length === 0) {
    return `${first.voters.length} and ${second.voters.length} votes need not have a node in common`;
  }
  const voted = both.length === 1 ? `${nodeList(both)} voted twice` : `${nodeList(both)} voted for both`;
  // Which of the two keys a node had first does not follow from which claim began first.
  const earlier = setAt(both, first, told) <= setAt(both, second, told) ? first : second;
  const why = whyGone(earlier, both, both.length === 1 ? 'it' : 'they', told);
  return why === '' ? voted : `${voted}, ${why}`;
}

function setAt(nodes: readonly string[], claim: Claim, told: Told): number {
  const set = told.judgement.run.trace.find(
    (it) => it.kind === 'key-set' && nodes.includes(it.process) && numberOf(it, 'token') === claim.token,
  );
  return set?.seq ?? Number.POSITIVE_INFINITY;
}

/** How the key of a claim went from these nodes; `subject` is what the sentence calls them. */
function whyGone(claim: Claim, nodes: readonly string[], subject: string, told: Told): string {
  const { trace } = told.judgement.run;
  const gone = trace.filter(
    (it) => it.kind === 'key-gone' && nodes.includes(it.process) && numberOf(it, 'token') === claim.token,
  );
  const [first] = gone;
  if (first === undefined) return '';
  const token = told.tokenName(claim.token);
  switch (textOf(first, 'how')) {
    case 'forgotten': {
      const why = trace[first.cause]?.kind;
      if (why === 'forget') return `${subject} lost ${token}`;
      return `${subject} forgot ${token} in the ${why === 'failover' ? 'failover' : 'restart'}`;
    }
    case 'deleted':
    case 'overwritten':
      return takenAway(first, token, claim, told);
    default:
      return expiredWords(claim, first, token);
  }
}

function takenAway(gone: TraceEvent, token: string, claim: Claim, told: Told): string {
  const by = told.judgement.run.trace[gone.cause];
  const who = by === undefined ? 'somebody' : textOf(by, 'client');
  const verb = textOf(gone, 'how') === 'deleted' ? 'deleted' : 'replaced';
  // One token for several tries: what was sent for an earlier one acts on a later one.
  if (who === claim.client) return `${who} ${verb} ${token} itself, by what it had sent before`;
  return `${who} ${verb} ${token}, which was not its own`;
}

function expiredWords(claim: Claim, gone: TraceEvent, token: string): string {
  if (gone.atUs < claim.fromUs) {
    return `${token} had expired there ${formatDurationMs(claim.fromUs - gone.atUs)} ms before ${claim.client} claimed`;
  }
  const early = claim.endUs - gone.atUs;
  return early > 0
    ? `${token} expired there ${formatDurationMs(early)} ms before the claim of ${claim.client} ended`
    : '';
}

/** Voters of a claim that no longer have its key. */
function votersThatLost(claim: Claim, atUs: number, told: Told): string[] {
  return claim.voters.filter((node) =>
    told.judgement.run.trace.some(
      (it) => it.kind === 'key-gone' && it.process === node && numberOf(it, 'token') === claim.token && it.atUs <= atUs,
    ),
  );
}

function writeSentence(violation: Violation, { claims, judgement }: Told): string {
  const [client = '?'] = violation.clients;
  const write = judgement.run.trace.find(
    (it) => it.kind === 'write-arrived' && it.process === client && it.atUs === violation.atUs && it.detail.stale === 1,
  );
  const lock = write === undefined ? undefined : numberOf(write, 'lock');
  const claim = claims.findLast(
    (it) => it.client === client && it.fromUs <= violation.atUs && (lock === undefined || it.lock === lock),
  );
  const late = claim === undefined ? '' : `${formatDurationMs(violation.atUs - claim.endUs)} ms `;
  const others = claims.filter((it) => it !== claim && it.fromUs <= violation.atUs && violation.atUs < it.endUs);
  const holders = others.map((it) => (it.client === client ? `${client} itself` : it.client));
  const meanwhile = others.length === 0 ? '' : `, while ${enumerate(holders)} held it`;
  const when = late.startsWith('0 ') ? 'as its claim ended' : `${late}after its claim had ended`;
  return `A write of ${client} reached ${violation.resource} ${when}${meanwhile}.`;
}

/** One sentence on a time in which nobody could acquire. */
export function outageSentence(outage: Outage): string {
  const length = formatDurationMs(outage.toUs - outage.fromUs);
  const why =
    outage.reason === 'no-quorum-up'
      ? 'too few nodes were up for a quorum'
      : 'somebody asked all that time, and nobody held it';
  return `Nobody could acquire for ${length} ms, from ${formatDurationMs(outage.fromUs)} on: ${why}.`;
}
