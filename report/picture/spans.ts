import type { TraceEvent } from '../../sim/index.js';
import { numberOf, textOf } from '../details.js';
import type { FoldedRetries } from './retries.js';
import type { Scene } from './scene.js';

/** A key on a node, from its setting until it was gone. */
export interface KeySpan {
  readonly node: string;
  readonly resource: string;
  readonly token: number;
  readonly seq: number;
  readonly fromUs: number;
  toUs: number;
  /** Sequence number of its end, or -1 if it outlived the run. */
  endSeq: number;
  end: 'expired' | 'deleted' | 'overwritten' | 'forgotten' | 'open';
  /** When it would be gone by the clock of the node, as of when it was set or lengthened, µs of true time. */
  expiryUs: number;
  /** The same by true time, from its TTL; equal where the clock of the node is right. */
  trueExpiryUs: number;
}

/** All keys of all nodes in order of their setting. */
export function keySpansOf(scene: Scene): KeySpan[] {
  const spans: KeySpan[] = [];
  const open = new Map<string, KeySpan>();
  const downSince = new Map<string, TraceEvent>();
  const endUs = endOf(scene.events);
  for (const event of scene.events) {
    if (event.kind === 'crash') downSince.set(event.process, event);
    if (event.kind !== 'key-set' && event.kind !== 'key-lengthened' && event.kind !== 'key-gone') continue;
    const resource = textOf(event, 'resource');
    const place = `${event.process} ${resource}`;
    const span = open.get(place);
    if (event.kind === 'key-set') {
      const made = spanOf(event, resource, endUs, scene);
      spans.push(made);
      open.set(place, made);
    } else if (event.kind === 'key-lengthened') {
      if (span !== undefined) Object.assign(span, expiries(event, scene));
    } else if (span !== undefined) {
      close(span, event, downSince.get(event.process), scene);
      open.delete(place);
    }
  }
  return spans;
}

function endOf(events: readonly TraceEvent[]): number {
  return events.at(-1)?.atUs ?? 0;
}

function spanOf(event: TraceEvent, resource: string, endUs: number, scene: Scene): KeySpan {
  return {
    node: event.process,
    resource,
    token: numberOf(event, 'token'),
    seq: event.seq,
    fromUs: event.atUs,
    toUs: endUs,
    endSeq: -1,
    end: 'open',
    ...expiries(event, scene),
  };
}

const MS = 1000;

function expiries(event: TraceEvent, scene: Scene): Pick<KeySpan, 'expiryUs' | 'trueExpiryUs'> {
  const expiryUs = numberOf(event, 'goneUs');
  const command = scene.eventOf(event.cause);
  const ttlMs = command?.kind === 'execute' ? numberOf(command, 'ttlMs') : 0;
  // Keys that came from a disk or a replica have no TTL of their own.
  return { expiryUs, trueExpiryUs: ttlMs === 0 ? expiryUs : event.atUs + ttlMs * MS };
}

function close(span: KeySpan, event: TraceEvent, crash: TraceEvent | undefined, scene: Scene): void {
  const how = textOf(event, 'how');
  span.end = how === 'deleted' || how === 'overwritten' || how === 'forgotten' ? how : 'expired';
  span.toUs = event.atUs;
  span.endSeq = event.seq;
  // What a restart finds gone was gone with the crash.
  if (how === 'forgotten' && crash !== undefined && scene.eventOf(event.cause)?.kind === 'restart') {
    span.toUs = crash.atUs;
    span.endSeq = crash.seq;
  }
}

/** How many nodes held a token, in a stretch of time in which that did not change. */
export interface QuorumSpan {
  readonly resource: string;
  readonly token: number;
  readonly fromUs: number;
  readonly toUs: number;
  readonly votes: number;
  readonly quorum: number;
  readonly nodes: number;
  /** The event that made it so, all of its instant that did, and the one that ended it. */
  readonly seq: number;
  readonly seqs: readonly number[];
  readonly endSeq: number;
}

/** Which token a quorum really held, and where one had fallen below it; what never had a quorum is left out. */
export function truthSpansOf(scene: Scene, keys: readonly KeySpan[]): QuorumSpan[] {
  const groups = new Map<string, KeySpan[]>();
  for (const key of keys) {
    const place = `${key.resource} ${key.token}`;
    const group = groups.get(place);
    if (group === undefined) groups.set(place, [key]);
    else group.push(key);
  }
  return [...groups.values()].flatMap((group) => countsOf(group, ...quorumFor(group[0]?.token ?? 0, scene)));
}

/** Votes that make a lock with this token, and of how many nodes: clients need not all know the same ones. */
function quorumFor(token: number, scene: Scene): [quorum: number, nodes: number] {
  const nodes = scene.nodes.length;
  const claim = scene.claims.find((it) => it.token === token);
  if (claim === undefined) return [scene.quorum, nodes];
  const event = scene.eventOf(claim.seq);
  return [claim.quorum, event === undefined ? nodes : numberOf(event, 'nodes')];
}

function countsOf(group: readonly KeySpan[], quorum: number, nodes: number): QuorumSpan[] {
  const [first] = group;
  if (first === undefined) return [];
  const changes = group
    .flatMap((key) => [
      { atUs: key.fromUs, by: 1, seq: key.seq },
      { atUs: key.toUs, by: -1, seq: key.endSeq < 0 ? key.seq : key.endSeq },
    ])
    .sort((a, b) => a.atUs - b.atUs || b.by - a.by);
  const spans: QuorumSpan[] = [];
  let votes = 0;
  let had = false;
  let seqs: readonly number[] = [];
  for (const [index, { atUs, by, seq }] of changes.entries()) {
    votes += by;
    seqs = changes[index - 1]?.atUs === atUs ? [...seqs, seq] : [seq];
    had ||= votes >= quorum;
    const { atUs: toUs, seq: endSeq } = changes[index + 1] ?? { atUs, seq };
    const isMoment = toUs === atUs && votes >= quorum && (changes[index + 1]?.by ?? 0) < 0;
    if (!had || votes === 0 || (toUs <= atUs && !isMoment)) continue;
    const last = spans.at(-1);
    if (last !== undefined && last.votes === votes && last.toUs === atUs)
      spans[spans.length - 1] = { ...last, toUs, endSeq };
    else
      spans.push({
        resource: first.resource,
        token: first.token,
        fromUs: atUs,
        toUs,
        votes,
        quorum,
        nodes,
        seq,
        seqs,
        endSeq,
      });
  }
  return spans;
}

/** A time in which a process was not its usual self, or an instant at which something befell it. */
export interface FaultSpan {
  readonly process: string;
  readonly kind: 'down' | 'frozen' | 'cut' | 'refusing' | 'moment';
  readonly fromUs: number;
  readonly toUs: number;
  readonly seq: number;
  /** The event that ended it; `undefined` if none did. */
  readonly endSeq: number | undefined;
}

/** What lanes of processes show besides what they do. */
export interface Disturbances {
  readonly faults: readonly FaultSpan[];
  /** Processes whose clocks are drawn. */
  readonly clocks: ReadonlySet<string>;
  readonly retries: readonly FoldedRetries[];
}

/** What befell processes, in order. */
export function faultSpansOf(scene: Scene): FaultSpan[] {
  const endUs = endOf(scene.events);
  return scene.events.flatMap((event, index) => faultSpans(event, index, scene, endUs));
}

function faultSpans(event: TraceEvent, index: number, scene: Scene, endUs: number): FaultSpan[] {
  const { seq, atUs: fromUs } = event;
  const span = (kind: FaultSpan['kind'], toUs: number, process = event.process, endSeq?: number): FaultSpan => ({
    process,
    kind,
    fromUs,
    toUs: Math.min(toUs, Math.max(endUs, fromUs)),
    seq,
    endSeq,
  });
  const untilUs = numberOf(event, 'untilUs');
  switch (event.kind) {
    case 'crash':
    case 'client-crash': {
      const back = upAgain(index, scene);
      return [span('down', back?.atUs ?? endUs, event.process, back?.seq)];
    }
    case 'pause':
    case 'suspend':
      return [span('frozen', untilUs)];
    case 'error-replies':
      return [span('refusing', untilUs)];
    case 'partition':
      return smallerSide(event).map((process) => span('cut', untilUs, process));
    case 'failover':
    case 'data-loss':
    case 'clock-step':
    case 'clock-drift':
    case 'reconfigure':
      return [span('moment', fromUs)];
    default:
      return [];
  }
}

/** When a process that went down was there again, by itself or because another took its place. */
function upAgain(crash: number, { events }: Scene): TraceEvent | undefined {
  const process = events[crash]?.process;
  const isBack = ({ kind }: TraceEvent): boolean => kind === 'restart' || kind === 'failover';
  return events.find((it, index) => index > crash && it.process === process && isBack(it));
}

function smallerSide(event: TraceEvent): readonly string[] {
  const { from, to } = event.detail;
  const sides = [from, to].map((it) => (typeof it === 'object' ? it : []));
  const [a = [], b = []] = sides;
  return b.length < a.length ? b : a;
}
