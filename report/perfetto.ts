import type { TraceEvent } from '../sim/index.js';
import { describeEvent } from './event-words.js';
import { type Arrow, arrowsFrom } from './picture/messages.js';
import type { Scene } from './picture/scene.js';
import { faultSpansOf, keySpansOf, truthSpansOf } from './picture/spans.js';

/** An event of Chrome's trace format, which Perfetto reads: µs, and numbers for processes and threads. */
interface PerfettoEvent {
  readonly ph: 'X' | 'i' | 'M' | 's' | 'f';
  readonly name: string;
  readonly cat: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  readonly dur?: number;
  readonly id?: number;
  readonly bp?: 'e';
  readonly s?: 't' | 'g';
  readonly args?: Readonly<Record<string, unknown>>;
}

const PID = 1;
const TRUTH = 0;

/** A run as a trace for ui.perfetto.dev or chrome://tracing: spans for beliefs, keys and faults, flows for messages. */
export function perfetto(scene: Scene): {
  readonly traceEvents: readonly PerfettoEvent[];
  readonly displayTimeUnit: 'ms';
} {
  return { displayTimeUnit: 'ms', traceEvents: [...eventsOf(scene)] };
}

/** Events that are put into words at once. */
const AT_ONCE = 256;

/** The same as the text of a file, piece by piece: all of it at once would take ten times the memory of the run. */
export function* perfettoText(scene: Scene): Generator<string, void> {
  let before = '{"displayTimeUnit":"ms","traceEvents":[';
  let gathered: string[] = [];
  for (const event of eventsOf(scene)) {
    gathered.push(JSON.stringify(event));
    if (gathered.length < AT_ONCE) continue;
    yield before + gathered.join(',');
    before = ',';
    gathered = [];
  }
  // Lanes have names, so there is at least one event.
  yield `${gathered.length === 0 ? '' : before}${gathered.join(',')}]}\n`;
}

function* eventsOf(scene: Scene): Generator<PerfettoEvent, void> {
  const lanes = ['truth', ...scene.clients, ...scene.nodes];
  const tid = (name: string): number => Math.max(0, lanes.indexOf(name));
  const meta = (name: string, at: number, value: string): PerfettoEvent => ({
    ...base(name, 'meta', at, 0),
    ph: 'M',
    args: { name: value },
  });
  yield meta('process_name', TRUTH, scene.heading.title);
  for (const [index, lane] of lanes.entries()) yield meta('thread_name', index, lane);
  yield* spans(scene, tid);
  let id = 0;
  for (const event of scene.events) {
    for (const arrow of arrowsFrom(event, scene)) yield* flow(arrow, id++, tid);
  }
  for (const event of scene.events) yield instant(event, scene, tid(event.process));
}

function base(
  name: string,
  cat: string,
  tid: number,
  ts: number,
): Pick<PerfettoEvent, 'name' | 'cat' | 'pid' | 'tid' | 'ts'> {
  return { name, cat, pid: PID, tid, ts };
}

function spans(scene: Scene, tid: (name: string) => number): PerfettoEvent[] {
  const { tokenName } = scene;
  const keys = keySpansOf(scene);
  const span = (name: string, cat: string, lane: number, fromUs: number, toUs: number): PerfettoEvent => ({
    ...base(name, cat, lane, fromUs),
    ph: 'X',
    dur: toUs - fromUs,
  });
  return [
    ...scene.violations.map((it) => span(`✗ ${it.detail}`, 'violation', TRUTH, it.atUs, it.untilUs ?? it.atUs)),
    ...truthSpansOf(scene, keys).map((it) =>
      span(`${tokenName(it.token)} ${it.votes}/${it.nodes}`, 'truth', TRUTH, it.fromUs, it.toUs),
    ),
    ...scene.claims.map((it) => span(`holds ${tokenName(it.token)}`, 'belief', tid(it.client), it.fromUs, it.endUs)),
    ...keys.map((it) => span(`${it.resource} = ${tokenName(it.token)}`, 'key', tid(it.node), it.fromUs, it.toUs)),
    ...faultSpansOf(scene)
      .filter((it) => it.toUs > it.fromUs)
      .map((it) => span(it.kind, 'fault', tid(it.process), it.fromUs, it.toUs)),
  ];
}

function flow(arrow: Arrow, id: number, tid: (name: string) => number): PerfettoEvent[] {
  if (arrow.toUs === null || arrow.kind === 'write') return [];
  return [
    { ...base(arrow.kind, 'message', tid(arrow.from), arrow.fromUs), ph: 's', id },
    { ...base(arrow.kind, 'message', tid(arrow.to), arrow.toUs), ph: 'f', bp: 'e', id },
  ];
}

function instant(event: TraceEvent, scene: Scene, tid: number): PerfettoEvent {
  const { kind, atUs, seq, cause, localUs, detail } = event;
  return {
    ...base(describeEvent(event, scene), kind, tid, atUs),
    ph: 'i',
    s: 't',
    args: { seq, cause, localUs, ...detail },
  };
}
