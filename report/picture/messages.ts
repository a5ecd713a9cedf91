import type { TraceEvent } from '../../sim/index.js';
import { listOf, numberOf, textOf } from '../details.js';
import type { Scene } from './scene.js';

/** One message, or a copy of it, on its way. */
export interface Arrow {
  /** The event of its sending, and of its arrival if there was one. */
  readonly seq: number;
  readonly endSeq: number;
  readonly from: string;
  /** A process, or a resource by `resourceLane`. */
  readonly to: string;
  readonly fromUs: number;
  /** Arrival; `null` if it was lost, or was still on its way when the run ended. */
  readonly toUs: number | null;
  readonly kind: 'request' | 'reply' | 'write';
  /** `dropped`: it arrived where nobody was, or over a connection that had broken. */
  readonly fate: 'arrives' | 'lost' | 'dropped' | 'flying';
  readonly token: number;
  /** Of a reply: `yes`, `no` or `error`. */
  readonly answer: string;
}

/** What a lane of a resource is called, so that it is no process. */
export function resourceLane(resource: string): string {
  return `resource ${resource}`;
}

/** All messages of a run in order of their sending. */
export function arrowsOf(scene: Scene): Arrow[] {
  return scene.events.flatMap((event) => arrowsFrom(event, scene));
}

/** Those that an event sends. */
export function arrowsFrom(event: TraceEvent, scene: Scene): Arrow[] {
  if (event.kind === 'send' || event.kind === 'lost') return messageArrows(event, scene);
  return event.kind === 'write-sent' ? writeArrows(event, scene) : [];
}

function messageArrows(event: TraceEvent, scene: Scene): Arrow[] {
  const isRequest = event.process === textOf(event, 'client');
  const base = {
    seq: event.seq,
    from: event.process,
    to: isRequest ? textOf(event, 'node') : textOf(event, 'client'),
    fromUs: event.atUs,
    kind: isRequest ? 'request' : 'reply',
    token: numberOf(event, 'token'),
    answer: isRequest ? '' : textOf(event, 'answer'),
  } as const;
  if (event.kind === 'lost') return [{ ...base, endSeq: event.seq, toUs: null, fate: 'lost' }];
  const arrivals = scene
    .effectsOf(event.seq)
    .filter(
      (it) =>
        it.kind === 'dropped' || (isRequest ? it.kind === 'execute' : it.kind === 'reply' || it.kind === 'no-script'),
    );
  if (arrivals.length === 0) return [{ ...base, endSeq: event.seq, toUs: null, fate: 'flying' }];
  return arrivals.map((it) => ({
    ...base,
    endSeq: it.seq,
    toUs: it.atUs,
    fate: it.kind === 'dropped' ? 'dropped' : 'arrives',
  }));
}

function writeArrows(event: TraceEvent, scene: Scene): Arrow[] {
  const arrival = scene.effectsOf(event.seq).find((it) => it.kind === 'write-arrived' || it.kind === 'write-refused');
  return listOf(event, 'resources').map((resource) => ({
    seq: event.seq,
    endSeq: arrival?.seq ?? event.seq,
    from: event.process,
    to: resourceLane(resource),
    fromUs: event.atUs,
    toUs: arrival?.atUs ?? null,
    kind: 'write',
    fate: arrival === undefined ? 'flying' : 'arrives',
    token: numberOf(event, 'token'),
    answer: arrival?.kind === 'write-refused' ? 'no' : 'yes',
  }));
}
