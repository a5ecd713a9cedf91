import { formatDurationMs } from '../../scenarios/index.js';
import { wrap } from '../../text/format.js';
import { listOf } from '../details.js';
import { arrowMarks } from './arrow-marks.js';
import { causalPath } from './causal-path.js';
import { chanceLane } from './chance-lane.js';
import { clientLane } from './client-lane.js';
import { wrongClocks } from './clock-line.js';
import { type Frame, frameOf } from './frame.js';
import { placesInInstants } from './instants.js';
import { type LanePlan, laneMarks, placed } from './lane.js';
import { legendMarks } from './legend.js';
import { type Mark, type Picture, STATIC_VIEW, textWidth, type View } from './marks.js';
import { arrowsOf } from './messages.js';
import { nodeLane } from './node-lane.js';
import { axisMarks, foldMarks, STRIP, wrongMarks } from './overlay-marks.js';
import { type FoldedRetries, foldRetries } from './retries.js';
import { foldedScale, linearScale, orderScale, type Scale, type ScaleOptions } from './scale.js';
import type { Scene } from './scene.js';
import { faultSpansOf, type KeySpan, keySpansOf, truthSpansOf } from './spans.js';
import { quorumLane, writesLane } from './truth-lane.js';

const FOOT = 34;

/** Pictures that stand still are not wider than this: their marks move together instead. */
const MOST_WIDTH = 3200;

/** A run as a picture for a document. */
export function staticPicture(scene: Scene): Picture {
  const picture = layout(scene, STATIC_VIEW);
  if (picture.width <= MOST_WIDTH) return picture;
  return layout(scene, { ...STATIC_VIEW, zoom: MOST_WIDTH / picture.width });
}

/** Lays a run out as marks. The same run and view always give the same picture. */
export function layout(given: Scene, view: View): Picture {
  const path = causalPath(given);
  const { scene, retries } = view.allRetries === true ? { scene: given, retries: [] } : foldRetries(given, path);
  const frame = frameOf(view);
  const keys = keySpansOf(scene);
  const scale = scaleOf(scene, view, keys, frame);
  const seenBy = scene.clients.includes(view.axis) || scene.nodes.includes(view.axis) ? view.axis : null;
  const width = Math.max(view.width, scale.right + frame.margin);
  const head = view.heading ? headMarks(scene, width) : { marks: [], bottom: 2 };
  const isWrong = seenBy === null && scene.violations.length + scene.outages.length > 0;
  const top = head.bottom + (isWrong ? STRIP : 6);
  const plans = lanePlans(scene, scale, keys, seenBy, retries);
  const chance = view.likelihood && seenBy === null ? [chanceLane(view.likelihood, scale)] : [];
  const lanes = placed([...plans, ...chance], top);
  const byId = new Map(lanes.map((lane) => [lane.id, lane]));
  const bottom = lanes.reduce((most, lane) => Math.max(most, lane.y + lane.height), top);
  const arrows = arrowsOf(scene).filter((it) => seenBy === null || it.from === seenBy || it.to === seenBy);
  const marks: Mark[] = [
    ...head.marks,
    ...foldMarks(scale, { top, bottom }),
    ...(isWrong ? wrongMarks(scene, scale, { top, bottom }, view, frame) : []),
    ...lanes.flatMap((lane) => laneMarks(lane, scene, scale, frame)),
    ...arrows.flatMap((arrow) => arrowMarks(arrow, byId, scale, scene, seenBy)),
    ...axisMarks(scale, view, bottom, width),
  ];
  const legend = view.heading ? legendMarks(marks, frame.nameX, bottom + FOOT, width) : { marks: [], height: 0 };
  return {
    width,
    height: bottom + FOOT + legend.height,
    marks: inLayers([...dimmed(marks, path), ...legend.marks]),
    lanes: lanes.map(({ id, y, height }) => ({ id, y, height })),
    xOf: (seq) => scale.x(scene.eventOf(seq)?.atUs ?? 0, seq),
    label: [scene.heading.title, ...scene.heading.sentences].join('. '),
    gutter: frame.gutter,
    folded: retries.reduce((sum, { count }) => sum + count, 0),
  };
}

/** What has nothing to do with what went wrong steps back; where nothing did, all stays as it is. */
function dimmed(marks: readonly Mark[], path: ReadonlySet<number> | null): readonly Mark[] {
  if (path === null) return marks;
  return marks.map((mark) => (mark.seq === undefined || path.has(mark.seq) ? mark : { ...mark, dim: true }));
}

const LAYERS: Readonly<Record<Mark['shape'], number>> = { box: 0, line: 1, glyph: 2, text: 3 };

/** Words lie over lines, and lines over bars. */
function inLayers(marks: readonly Mark[]): Mark[] {
  return [...marks].sort((a, b) => LAYERS[a.shape] - LAYERS[b.shape]);
}

function scaleOf(scene: Scene, view: View, keys: readonly KeySpan[], { gutter, margin }: Frame): Scale {
  const marked = [
    ...scene.violations.flatMap((it) => [it.atUs, it.untilUs ?? it.atUs]),
    ...scene.claims.map((it) => it.fromUs),
  ];
  const options: ScaleOptions = { left: gutter, width: view.width - gutter - margin, zoom: view.zoom, marked };
  if (view.axis === 'order') return orderScale(scene.events, options);
  const own = scene.events.filter((it) => it.process === view.axis);
  if (own.length > 0) {
    const local = new Map(own.map((it) => [it.atUs, it.localUs]));
    return foldedScale([...local.keys()], {
      ...options,
      places: placesInInstants(own),
      marked: [],
      label: (us) => formatDurationMs(local.get(us) ?? us),
    });
  }
  const instants = instantsOf(scene, keys);
  return view.axis === 'true'
    ? linearScale(instants, options)
    : foldedScale(instants, { ...options, places: placesInInstants(scene.events) });
}

/** All instants at which something begins or ends. */
function instantsOf(scene: Scene, keys: readonly KeySpan[]): number[] {
  const instants = [scene.fromUs];
  for (const event of scene.events) instants.push(event.atUs);
  for (const claim of scene.claims) instants.push(claim.endUs);
  for (const { atUs, untilUs } of scene.violations) instants.push(atUs, untilUs ?? atUs);
  for (const key of keys)
    if (Math.abs(key.trueExpiryUs - key.toUs) > 1500 && key.end === 'expired') instants.push(key.trueExpiryUs);
  for (const { fromUs, toUs } of scene.outages) instants.push(fromUs, toUs);
  return scene.fromUs === 0 ? instants : instants.filter((it) => it >= scene.fromUs);
}

function lanePlans(
  scene: Scene,
  scale: Scale,
  keys: readonly KeySpan[],
  seenBy: string | null,
  retries: readonly FoldedRetries[],
): LanePlan[] {
  const faults = faultSpansOf(scene);
  const clocks = wrongClocks(scene);
  const truths = truthSpansOf(scene, keys);
  const resources = resourcesOf(scene);
  const written = new Set(
    scene.events.flatMap((it) =>
      it.kind === 'write-sent' || it.kind === 'write-refused' || it.kind === 'write-arrived'
        ? listOf(it, 'resources')
        : [],
    ),
  );
  const shows = (id: string): boolean => seenBy === null || seenBy === id;
  const bare = (plan: LanePlan): LanePlan =>
    shows(plan.id) ? plan : { ...plan, bars: () => [], rows: 1, clock: false };
  const none: readonly never[] = [];
  const hidden: Scene = { ...scene, events: none, claims: none };
  const of = (id: string): Scene => (shows(id) ? scene : hidden);
  return [
    ...(seenBy === null ? resources.map((resource) => quorumLane(resource, scene, scale, truths)) : []),
    ...scene.clients.map((id) =>
      bare(clientLane(id, of(id), scale, { faults, clocks, retries: shows(id) ? retries : none })),
    ),
    ...(seenBy === null ? [...written].map((resource) => writesLane(resource, scene, scale)) : []),
    ...scene.nodes.map((id) => bare(nodeLane(id, of(id), scale, keys, { faults, clocks, retries }))),
  ];
}

function resourcesOf({ events }: Scene): string[] {
  const found = new Set<string>();
  for (const event of events) if (event.kind === 'key-set') found.add(String(event.detail.resource));
  return [...found];
}

const HEAD_X = 14;

function headMarks({ heading }: Scene, width: number): { readonly marks: Mark[]; readonly bottom: number } {
  const bad = heading.verdict === 'bad';
  const marks: Mark[] = [
    { shape: 'text', role: 'title', tone: bad ? 1 : 0, x: HEAD_X, y: 26, text: `${bad ? '✗' : '✓'} ${heading.title}` },
  ];
  let y = 46;
  const most = Math.floor((width - 2 * HEAD_X) / textWidth('x', 12.5));
  for (const line of heading.sentences.flatMap((it) => wrap(it, most))) {
    marks.push({ shape: 'text', role: 'text', x: HEAD_X, y, text: line });
    y += 17;
  }
  for (const line of wrap(heading.config, Math.floor((width - 2 * HEAD_X) / textWidth('x', 10)))) {
    marks.push({ shape: 'text', role: 'sub', x: HEAD_X, y, text: line });
    y += 14;
  }
  return { marks, bottom: y - 4 };
}
