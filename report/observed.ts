import type { Observed, ObservedVerdict } from '../properties/history/observed.js';
import type { Outage, Violation } from '../properties/index.js';
import { PROPERTIES } from '../properties/property-info.js';
import type { FaultSeen, LockLine } from '../scenarios/history-line.js';
import type { Fault, PropertyId, Schedule } from '../scenarios/index.js';
import type { TraceEvent, TraceKind } from '../sim/index.js';
import { answersOf } from './answers.js';
import type { Hold } from './holds.js';
import { figuresOf, type RunSnapshot } from './run-snapshot.js';
import { outageSentence, violationSentence } from './story.js';
import { lettersOf } from './tokens.js';
import { configLine, propertyLabel } from './words.js';

type Detail = TraceEvent['detail'];

/** One acquisition of a history, and what is known of it so far. */
interface Held {
  readonly client: string;
  /** Its number among those of its client, and among all, from 1. */
  readonly lock: number;
  readonly token: number;
  readonly resources: readonly string[];
  cause: number;
  claim: { -readonly [K in keyof Hold]: Hold[K] } | null;
}

/** A run on real nodes as it was seen, with what was done to them. */
export interface Staged extends Observed {
  readonly faults: readonly FaultSeen[];
}

/**
 * A run on real nodes in the form of a trace, as far as it was seen: what its clients did, what befell nodes and ways, and
 * no messages.
 */
export function takenOfObserved(schedule: Schedule, observed: Staged, found: ObservedVerdict): RunSnapshot {
  const told = new Teller();
  for (const it of inOrder(observed)) 'fault' in it ? told.befell(it) : told.tell(it);
  const outages = [...outagesOf(observed.down, 'no-quorum-up'), ...outagesOf(observed.blocked, 'orphaned-keys')];
  const kinds = [...found.properties.map(propertyLabel), ...(outages.length > 0 ? ['availability'] : [])];
  const violations = found.violations.map((it) => violationOf(it, observed.history, told.claims));
  const names = told.tokens.map((token) => [token, lettersOf(token - 1)] as const);
  const about = {
    judgement: { violations, outages, assumptionsBroken: [], run: { trace: told.events } },
    claims: told.claims,
    tokenName: (token: number) => lettersOf(token - 1),
  };
  const sentences = [
    ...violations.map((it) => violationSentence(it, about)),
    ...outages.map((it) => outageSentence(it, about)),
  ];
  const nothing = found.verdict === 'unavailable' ? 'Somebody waited in vain.' : 'Nothing was violated.';
  return {
    ...figuresOf(schedule),
    lock: 'own',
    verdict: found.verdict,
    heading: {
      verdict: found.verdict === 'safe' ? 'good' : 'bad',
      title: kinds.length > 0 ? kinds.join(', ') : found.verdict,
      sentences: sentences.length > 0 ? sentences : [nothing],
      config: configLine(schedule),
      answers: answersOf(violations[0], outages[0], about),
    },
    events: told.events,
    fromUs: 0,
    claims: told.claims,
    names,
    violations,
    outages,
  };
}

function inOrder({ history, faults }: Staged): (LockLine | FaultSeen)[] {
  return [...faults, ...history].sort((a, b) => a.atUs - b.atUs);
}

function outagesOf(spans: Observed['down'], reason: Outage['reason']): Outage[] {
  return spans.map(({ fromUs, toUs }) => ({ fromUs, toUs, reason }));
}

function violationOf(
  { property, resource, lines, detail }: ObservedVerdict['violations'][number],
  history: readonly LockLine[],
  claims: readonly Hold[],
): Violation {
  const concerned = lines.flatMap((number) => history[number - 1] ?? []);
  const names = new Set(concerned.map(({ lock }) => lock));
  const acquired = history.flatMap((line) => (line.type === 'acquire' && names.has(line.lock) ? [line] : []));
  const clients = [...new Set(acquired.map(({ client }) => client))];
  const atUs = Math.max(0, ...concerned.map((line) => line.atUs));
  const both = claims.filter((it) => clients.includes(it.client) && it.fromUs <= atUs && atUs < it.endUs);
  const untilUs =
    property === 'mutual-exclusion' && both.length > 1 ? Math.min(...both.map(({ endUs }) => endUs)) : atUs;
  return { property, kind: kindOf(property), atUs, untilUs, resource: resource ?? '', clients, detail };
}

function kindOf(property: PropertyId): Violation['kind'] {
  const { kind } = PROPERTIES[property];
  return kind === 'harness' ? 'state' : kind;
}

function struckBy(fault: Fault): string {
  if ('node' in fault) return fault.node;
  if ('client' in fault) return fault.client;
  return 'process' in fault ? fault.process : (fault.from[0] ?? '');
}

/** What the trace of a simulated run says of such a fault. */
function detailOf(fault: Fault, atUs: number): Detail {
  switch (fault.kind) {
    case 'pause':
    case 'suspend':
      return { untilUs: atUs + fault.forUs };
    case 'error-replies':
      return { operations: fault.operations, untilUs: atUs + fault.forUs, error: fault.error ?? '' };
    case 'partition': {
      const { from, to, oneWay, holds } = fault;
      return { from, to, untilUs: atUs + fault.forUs, oneWay: oneWay ? 1 : 0, holds: holds ? 1 : 0 };
    }
    case 'reconfigure':
      return { nodes: fault.nodes };
    case 'data-loss':
      return fault.resource === undefined ? {} : { resource: fault.resource };
    case 'clock-step':
      return { byUs: fault.byUs };
    case 'clock-drift':
      return { ratePpm: fault.ratePpm };
    case 'crash':
      return fault.clean ? { clean: 1 } : {};
    default:
      return {};
  }
}

/** Makes events of the lines of a history, one each. */
class Teller {
  readonly events: TraceEvent[] = [];
  readonly claims: Hold[] = [];
  readonly tokens: number[] = [];
  private readonly held = new Map<string, Held>();
  private readonly begun = new Map<Fault, number>();
  private readonly counts = new Map<string, number>();

  /** What befell a process. The end of a crash is its effect. */
  befell({ fault, what, atUs }: FaultSeen): void {
    const process = struckBy(fault);
    const begun = this.begun.get(fault) ?? -1;
    const kind = what === 'back' ? 'restart' : fault.kind;
    const seq = this.events.length;
    this.events.push({
      seq,
      kind,
      atUs,
      localUs: atUs,
      process,
      cause: begun,
      detail: what === 'back' ? {} : detailOf(fault, atUs),
    });
    if (what === 'struck') this.begun.set(fault, seq);
  }

  tell(line: LockLine): void {
    const it = line.type === 'acquire' ? this.asked(line) : this.held.get(line.lock);
    if (it === undefined) return;
    const { atUs } = line;
    switch (line.type) {
      case 'acquire':
        it.cause = this.add(it, 'call', atUs, { resources: it.resources, ttlMs: line.ttlMs });
        break;
      case 'acquired':
      case 'extended':
        this.believes(it, line.type === 'acquired' ? 'claim' : 'extended', atUs, atUs + line.validUs);
        break;
      case 'not-extended':
        this.add(it, 'not-extended', atUs, { reason: 'refused' });
        break;
      case 'failed':
        this.add(it, 'acquire-failed', atUs, { reason: 'contended' });
        break;
      case 'release':
        it.cause = this.add(it, 'release-call', atUs, {});
        if (it.claim !== null && atUs < it.claim.endUs) Object.assign(it.claim, { endUs: atUs, end: 'released' });
        break;
      case 'released':
        this.add(it, 'released', atUs, {});
        break;
      case 'write':
        this.add(it, 'write-arrived', atUs, {
          resources: [line.resource],
          stale: it.claim !== null && it.claim.endUs <= atUs ? 1 : 0,
        });
    }
  }

  private asked({ client, lock, resources }: Extract<LockLine, { type: 'acquire' }>): Held {
    const number = this.counts.get(client) ?? 0;
    this.counts.set(client, number + 1);
    const token = this.held.size + 1;
    const it: Held = { client, lock: number, token, resources, cause: -1, claim: null };
    this.held.set(lock, it);
    this.tokens.push(token);
    return it;
  }

  private believes(it: Held, kind: 'claim' | 'extended', atUs: number, endUs: number): void {
    const seq = this.add(it, kind, atUs, { endUs, resources: it.resources });
    if (kind === 'extended' && it.claim !== null) {
      it.claim.endUs = endUs;
      return;
    }
    const { client, lock, token, resources } = it;
    const about = { client, lock, token, resources, voters: [], quorum: 0, seq };
    it.claim = { ...about, fromUs: atUs, endUs, end: 'expired' };
    this.claims.push(it.claim);
  }

  private add({ client, lock, token, cause }: Held, kind: TraceKind, atUs: number, detail: Detail): number {
    const seq = this.events.length;
    this.events.push({ seq, kind, atUs, localUs: atUs, process: client, cause, detail: { lock, token, ...detail } });
    return seq;
  }
}
