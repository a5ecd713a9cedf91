import { LONGEST_US } from '../core/index.js';
import type { Outage, Violation } from '../properties/index.js';
import { formatDurationMs } from '../scenarios/index.js';
import type { TraceEvent } from '../sim/index.js';
import { formatList, plural } from '../text/format.js';
import { nodesOf, numberOf, textOf } from './details.js';
import type { Hold } from './holds.js';
import { claimsIn, type ReportContext } from './report-context.js';
import { nodeList } from './words.js';

/*
 * Why something went wrong, as far as a trace tells: what stands behind the colon of a sentence.
 */

/** Why a belief was wrong; empty if the trace does not tell. */
export function reason(violation: Violation, told: ReportContext): string {
  const [first, second] = claimsIn(violation, told.claims);
  if (first === undefined) return '';
  if (second !== undefined) return whyBoth(first, second, told);
  const lost = votersThatLost(first, violation.atUs, told);
  return whyGone(first, lost, nodeList(lost), told);
}

function whyBoth(first: Hold, second: Hold, told: ReportContext): string {
  // Who saw clients only does not know who voted.
  if (first.voters.length === 0 && second.voters.length === 0) return '';
  const both = second.voters.filter((node) => first.voters.includes(node));
  if (both.length === 0) {
    return apart(first, second, told);
  }
  const voted = both.length === 1 ? `${nodeList(both)} voted twice` : `${nodeList(both)} voted for both`;
  // Which of the two keys a node had first does not follow from which claim began first.
  const earlier = setAt(both, first, told) <= setAt(both, second, told) ? first : second;
  const why = whyGone(earlier, both, both.length === 1 ? 'it' : 'they', told);
  return why === '' ? voted : `${voted}, ${why}`;
}

/** Two quorums without a node in common: for clients that ask different nodes, or quorums that are too small. */
function apart(first: Hold, second: Hold, told: ReportContext): string {
  const votersOf = ({ voters }: Hold): string => (voters.length === 0 ? 'no node' : nodeList(voters));
  const voted = `${votersOf(first)} voted for ${first.client} and ${votersOf(second)} for ${second.client}`;
  for (const claim of [first, second]) {
    const event = told.judgement.run.trace[claim.seq];
    const [nodes, counted] = event === undefined ? [0, 0] : [numberOf(event, 'nodes'), numberOf(event, 'votes')];
    const votes = claim.voters.length;
    if (counted > votes) return `${voted}, and ${claim.client} counted ${counted} votes of ${plural(votes, 'node')}`;
    if (votes * 2 <= nodes) return `${voted}, and ${votes} of ${nodes} is no majority`;
  }
  const [mine, yours] = [askedBy(first, told), askedBy(second, told)];
  if (mine.join() === yours.join()) return voted;
  const takeover = told.judgement.run.trace.find((it) => it.kind === 'failover' && textOf(it, 'of') !== '');
  const replica =
    takeover === undefined ? '' : `; ${takeover.process} had taken over as the replica of ${textOf(takeover, 'of')}`;
  return `${voted}, since ${first.client} asks ${nodeList(mine)} and ${second.client} asks ${nodeList(yours)}${replica}`;
}

/** Nodes that a client asked for a lock, in order. */
function askedBy({ client, lock }: Hold, { judgement }: ReportContext): string[] {
  const sent = judgement.run.trace.filter(
    (it) =>
      (it.kind === 'send' || it.kind === 'lost') &&
      it.process === client &&
      numberOf(it, 'lock') === lock &&
      textOf(it, 'operation') === 'acquire',
  );
  return [...new Set(sent.map((it) => textOf(it, 'node')))].sort((a, b) => Number(a.slice(1)) - Number(b.slice(1)));
}

function setAt(nodes: readonly string[], claim: Hold, told: ReportContext): number {
  const set = told.judgement.run.trace.find(
    (it) => it.kind === 'key-set' && nodes.includes(it.process) && numberOf(it, 'token') === claim.token,
  );
  return set?.seq ?? Number.POSITIVE_INFINITY;
}

/** How the key of a claim went from these nodes; `subject` is what the sentence calls them. */
function whyGone(claim: Hold, nodes: readonly string[], subject: string, told: ReportContext): string {
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
      if (why === 'data-loss') return `${subject} lost ${token}`;
      return `${subject} forgot ${token} in the ${why === 'failover' ? 'failover' : 'restart'}`;
    }
    case 'deleted':
    case 'overwritten':
      return takenAway(first, token, claim, told);
    default:
      return expiredWords(claim, gone, token, told);
  }
}

function takenAway(gone: TraceEvent, token: string, claim: Hold, told: ReportContext): string {
  const { trace } = told.judgement.run;
  const by = trace[gone.cause];
  const who = by === undefined ? 'somebody' : textOf(by, 'client');
  const how = textOf(gone, 'how');
  const verb = how === 'deleted' ? 'deleted' : 'replaced';
  const sent = by === undefined ? undefined : trace[by.cause];
  if (who !== claim.client) return `${who} ${verb} ${token}, which was not its own${byWhat(sent)}`;
  // That is its release.
  if (gone.atUs >= claim.endUs) return '';
  // One token for several tries: what was sent for an earlier one acts on a later one.
  const when = sent === undefined ? '' : ` at ${formatDurationMs(sent.atUs)}`;
  const nodes = trace
    .filter((it) => it.kind === 'key-gone' && numberOf(it, 'token') === claim.token && textOf(it, 'how') === how)
    .filter((it) => trace[it.cause]?.process === it.process && it.atUs === gone.atUs)
    .map((it) => it.process);
  const set = trace.findLast(
    (it) =>
      it.kind === 'key-set' &&
      it.process === gone.process &&
      it.seq < gone.seq &&
      it.detail.token === gone.detail.token,
  );
  const isLater = sent !== undefined && set !== undefined && sent.seq > set.seq;
  return `${who} itself ${verb} ${token} on ${nodeList(nodes)}, by what it ${isLater ? `sent${when}` : `had sent${when} for an earlier try`}`;
}

/** What did it, where nobody would expect that. */
function byWhat(sent: TraceEvent | undefined): string {
  if (sent === undefined || textOf(sent, 'operation') !== 'extend') return '';
  return `, by an extension that it had sent at ${formatDurationMs(sent.atUs)}`;
}

function expiredWords(claim: Hold, gone: readonly TraceEvent[], token: string, told: ReportContext): string {
  const [first] = gone;
  if (first === undefined) return '';
  const clocks = clockWords(claim, gone, told);
  if (first.atUs < claim.fromUs) {
    return `${token} had expired there ${formatDurationMs(claim.fromUs - first.atUs)} ms before ${claim.client} claimed${clocks}`;
  }
  if (claim.endUs > LONGEST_US / 2)
    return `${token} expired there, and the claim of ${claim.client} has no end${unextended(claim, first, told)}`;
  const early = claim.endUs - first.atUs;
  return early > 0
    ? `${token} expired there ${formatDurationMs(early)} ms before the claim of ${claim.client} ended${clocks}${extendedByFew(claim, told)}`
    : '';
}

function isOf(event: TraceEvent, { client, lock, seq }: Hold): boolean {
  return event.process === client && numberOf(event, 'lock') === lock && event.seq > seq;
}

/** A claim was taken for extended last without a majority of the nodes. */
function extendedByFew(claim: Hold, { judgement }: ReportContext): string {
  const last = judgement.run.trace.findLast((it) => it.kind === 'extended' && isOf(it, claim));
  if (last === undefined) return '';
  const [by, nodes] = [nodesOf(last, 'granted'), numberOf(last, 'nodes')];
  if (by.length * 2 > nodes) return '';
  const who = by.length === 0 ? 'no node' : `only ${nodeList(by)}`;
  return `, as ${who} extended it at ${formatDurationMs(last.atUs)}, and ${by.length} of ${nodes} is no majority`;
}

/** A claim without an end has been extended by no majority before its key was gone, though that was tried. */
function unextended(claim: Hold, gone: TraceEvent, { judgement }: ReportContext): string {
  const events = judgement.run.trace.filter((it) => it.seq < gone.seq && isOf(it, claim));
  const tried = events.some(({ kind, detail }) => kind === 'send' && detail.operation === 'extend');
  if (!tried) return '';
  const last = events.findLast(({ kind }) => kind === 'extended');
  return last === undefined
    ? ', though no majority has extended it'
    : `, though no majority has extended it since ${formatDurationMs(last.atUs)}`;
}

/** Less than this is how coarse clocks are, µs. */
const LEAST_ERROR_US = 1_500;

/** Clocks that did not measure the life of a key and the claim as true time did. */
function clockWords(claim: Hold, gone: readonly TraceEvent[], { judgement }: ReportContext): string {
  const { trace } = judgement.run;
  const gains = gone.flatMap((end) => {
    const set = trace.find(
      (it) => it.kind === 'key-set' && it.process === end.process && numberOf(it, 'token') === claim.token,
    );
    return set === undefined ? [] : [{ node: end.process, byUs: gainedUs(set, end) }];
  });
  const off = gains.filter(({ byUs }) => Math.abs(byUs) >= LEAST_ERROR_US);
  const words = off.length === 0 ? [] : [`${nodeList(off.map(({ node }) => node))} ${gainWords(off[0]?.byUs ?? 0)}`];
  const call = trace.findLast((it) => it.kind === 'call' && it.process === claim.client && it.seq < claim.seq);
  const end = trace.find((it) => it.kind === 'expired' && it.process === claim.client && it.seq > claim.seq);
  const mine = call === undefined || end === undefined ? 0 : gainedUs(call, end);
  if (Math.abs(mine) >= LEAST_ERROR_US) words.push(`${claim.client} ${gainWords(mine)}`);
  const stop = trace.find((it) => it.kind === 'suspend' && it.process === claim.client && it.atUs < claim.endUs);
  if (stop !== undefined && words.length === 0) {
    const [from, until] = [stop.atUs, numberOf(stop, 'untilUs')].map(formatDurationMs);
    return `, since its clock stood still from ${from} to ${until}`;
  }
  return words.length === 0 ? '' : `, since by their clocks ${words.join(' and ')}`;
}

function gainedUs(from: TraceEvent, to: TraceEvent): number {
  return to.localUs - from.localUs - (to.atUs - from.atUs);
}

function gainWords(us: number): string {
  return `${us > 0 ? 'gained' : 'lost'} ${formatDurationMs(Math.abs(us))} ms`;
}

/** Voters of a claim that no longer have its key. */
function votersThatLost(claim: Hold, atUs: number, told: ReportContext): string[] {
  return claim.voters.filter((node) =>
    told.judgement.run.trace.some(
      (it) => it.kind === 'key-gone' && it.process === node && numberOf(it, 'token') === claim.token && it.atUs <= atUs,
    ),
  );
}

/** Why a write was late: its client stood still, or the write was on its way. */
export function lateWriteCause(claim: Hold, write: TraceEvent, { judgement }: ReportContext): string {
  const { trace } = judgement.run;
  const sent = trace[write.cause];
  const client = claim.client;
  const done = trace.filter(
    (it) => it.kind === 'write-arrived' && it.process !== client && it.atUs > claim.endUs && it.seq < write.seq,
  );
  const others = [...new Set(done.map((it) => it.process))];
  const last = done.at(-1);
  const between =
    last === undefined ? '' : `; ${formatList(others)} had written meanwhile, at ${formatDurationMs(last.atUs)}`;
  if (sent === undefined || sent.kind !== 'write-sent') return between.slice(2);
  if (sent.atUs < claim.endUs)
    return `it was sent at ${formatDurationMs(sent.atUs)} and was ${formatDurationMs(write.atUs - sent.atUs)} ms on its way${between}`;
  const stop = trace.findLast(
    (it) => (it.kind === 'pause' || it.kind === 'suspend') && it.process === client && it.atUs < claim.endUs,
  );
  if (stop === undefined || numberOf(stop, 'untilUs') <= claim.endUs) return between.slice(2);
  const [from, until] = [stop.atUs, numberOf(stop, 'untilUs')].map(formatDurationMs);
  return `${client} was frozen from ${from} to ${until}, between its check and the write${between}`;
}

/** Nodes whose fencing counter had gone, if any had. */
export function lostCounters(atUs: number, { judgement }: ReportContext): string {
  const { trace } = judgement.run;
  const lost = trace.filter((it) => it.kind === 'counter-set' && it.atUs <= atUs && numberOf(it, 'counter') < 0);
  const nodes = [...new Set(lost.map((it) => it.process))];
  return nodes.length === 0
    ? ''
    : `${nodeList(nodes)} had lost ${nodes.length === 1 ? 'its counter' : 'their counters'}`;
}

/** Why nobody could acquire: which nodes were down, or whose keys were in the way. */
export function outageCause({ reason: kind, fromUs }: Outage, told: ReportContext): string {
  if (kind === 'no-quorum-up') {
    const down = downAt(fromUs, told);
    return down.length === 0
      ? 'too few nodes were up for a quorum'
      : `${nodeList(down)} ${down.length === 1 ? 'was' : 'were'} down, too few were up for a quorum`;
  }
  const left = leftAt(fromUs, told);
  return left === '' ? 'somebody asked all that time, and nobody held it' : `nobody held it, but ${left}`;
}

function downAt(atUs: number, { judgement }: ReportContext): string[] {
  const down = new Set<string>();
  for (const { kind, process, atUs: at } of judgement.run.trace) {
    if (at > atUs) break;
    if (kind === 'crash') down.add(process);
    else if (kind === 'restart' || kind === 'failover') down.delete(process);
  }
  return [...down].sort();
}

/** Keys that were on nodes at an instant without a claim behind them. */
function leftAt(atUs: number, { claims, judgement, tokenName }: ReportContext): string {
  const keys = new Map<string, TraceEvent>();
  for (const event of judgement.run.trace) {
    if (event.atUs > atUs) break;
    const place = `${event.process} ${textOf(event, 'resource')}`;
    if (event.kind === 'key-set') keys.set(place, event);
    else if (event.kind === 'key-gone') keys.delete(place);
  }
  // Once each, however many resources the lock is on.
  const nodes = new Map<number, Set<string>>();
  for (const event of keys.values()) {
    const token = numberOf(event, 'token');
    if (claims.some((it) => it.token === token && it.fromUs <= atUs && atUs < it.endUs)) continue;
    nodes.set(token, (nodes.get(token) ?? new Set()).add(event.process));
  }
  const groups = [...nodes].map(
    ([token, of]) => `${tokenName(token)} of ${ownerOf(token, judgement.run.trace)} on ${nodeList([...of].sort())}`,
  );
  return groups.length === 0 ? '' : `there was still ${formatList(groups)}`;
}

function ownerOf(token: number, trace: readonly TraceEvent[]): string {
  const set = trace.find((it) => it.kind === 'key-set' && numberOf(it, 'token') === token);
  return set === undefined ? '?' : textOf(set, 'owner');
}
