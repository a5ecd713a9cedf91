import { formatDurationMs } from '../../scenarios/index.js';
import { wrap } from '../../text/format.js';
import { listOf } from '../details.js';
import { propertyLabel } from '../words.js';
import { arrowMarks } from './arrow-marks.js';
import { chanceLane } from './chance-lane.js';
import { clientLane } from './client-lane.js';
import { wrongClocks } from './clock-line.js';
import { type LanePlan, laneMarks, NAME_X, type PlacedLane, placed } from './lane.js';
import { type Mark, type Picture, STATIC_VIEW, textWidth, type View } from './marks.js';
import { arrowsOf } from './messages.js';
import { nodeLane } from './node-lane.js';
import { foldedScale, linearScale, orderScale, type Scale, type ScaleOptions } from './scale.js';
import type { Scene } from './scene.js';
import { faultSpansOf, type KeySpan, keySpansOf, truthSpansOf } from './spans.js';
import { truthLane, writesLane } from './truth-lane.js';

const GUTTER = 118;
const MARGIN = 30;
const FOOT = 34;
const LEGEND = 22;
const STRIP = 20;

/** Pictures that stand still are not wider than this: their marks move together instead. */
const MOST_WIDTH = 3200;

/** A run as a picture for a document. */
export function staticPicture(scene: Scene): Picture {
  const picture = layout(scene, STATIC_VIEW);
  if (picture.width <= MOST_WIDTH) return picture;
  return layout(scene, { ...STATIC_VIEW, zoom: MOST_WIDTH / picture.width });
}

/** Lays a run out as marks. The same run and view always give the same picture. */
export function layout(scene: Scene, view: View): Picture {
  const keys = keySpansOf(scene);
  const scale = scaleOf(scene, view, keys);
  const seenBy = scene.clients.includes(view.axis) || scene.nodes.includes(view.axis) ? view.axis : null;
  const width = Math.max(view.width, scale.right + MARGIN);
  const head = view.heading ? headMarks(scene, width) : { marks: [], bottom: 2 };
  const top = head.bottom + STRIP;
  const plans = lanePlans(scene, scale, keys, seenBy);
  const chance = view.likelihood && seenBy === null ? [chanceLane(view.likelihood, scale)] : [];
  const lanes = placed([...plans, ...chance], top);
  const byId = new Map(lanes.map((lane) => [lane.id, lane]));
  const bottom = lanes.reduce((most, lane) => Math.max(most, lane.y + lane.height), top);
  const arrows = arrowsOf(scene).filter((it) => seenBy === null || it.from === seenBy || it.to === seenBy);
  const marks: Mark[] = [
    ...head.marks,
    ...foldMarks(scale, top, bottom),
    ...(seenBy === null ? bandMarks(scene, scale, top, bottom) : []),
    ...lanes.flatMap((lane) => laneMarks(lane, scene, scale, GUTTER)),
    ...arrows.flatMap((arrow) => arrowMarks(arrow, byId, scale, scene, seenBy)),
    ...(seenBy === null ? ruleMarks(scene, scale, top, bottom, byId) : []),
    ...axisMarks(scale, view, bottom, width),
    ...(view.heading ? legendMarks(bottom + FOOT) : []),
  ];
  return {
    width,
    height: bottom + FOOT + (view.heading ? LEGEND : 0),
    marks: inLayers(marks),
    lanes: lanes.map(({ id, y, height }) => ({ id, y, height })),
    xOf: (seq) => scale.x(scene.eventOf(seq)?.atUs ?? 0, seq),
    label: [scene.heading.title, ...scene.heading.sentences].join('. '),
  };
}

const LAYERS: Readonly<Record<Mark['shape'], number>> = { box: 0, line: 1, glyph: 2, text: 3 };

/** Words lie over lines, and lines over bars. */
function inLayers(marks: readonly Mark[]): Mark[] {
  return [...marks].sort((a, b) => LAYERS[a.shape] - LAYERS[b.shape]);
}

function scaleOf(scene: Scene, view: View, keys: readonly KeySpan[]): Scale {
  const marked = [
    ...scene.violations.flatMap((it) => [it.atUs, it.untilUs ?? it.atUs]),
    ...scene.claims.map((it) => it.fromUs),
  ];
  const options: ScaleOptions = { left: GUTTER, width: view.width - GUTTER - MARGIN, zoom: view.zoom, marked };
  if (view.axis === 'order') return orderScale(scene.events, options);
  const own = scene.events.filter((it) => it.process === view.axis);
  if (own.length > 0) {
    const local = new Map(own.map((it) => [it.atUs, it.localUs]));
    return foldedScale([...local.keys()], {
      ...options,
      marked: [],
      label: (us) => formatDurationMs(local.get(us) ?? us),
    });
  }
  const instants = instantsOf(scene, keys);
  return view.axis === 'true' ? linearScale(instants, options) : foldedScale(instants, options);
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

function lanePlans(scene: Scene, scale: Scale, keys: readonly KeySpan[], seenBy: string | null): LanePlan[] {
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
    ...(seenBy === null ? resources.map((resource) => truthLane(resource, scene, scale, truths)) : []),
    ...scene.clients.map((id) => bare(clientLane(id, of(id), scale, faults, clocks))),
    ...(seenBy === null ? [...written].map((resource) => writesLane(resource, scene, scale)) : []),
    ...scene.nodes.map((id) => bare(nodeLane(id, of(id), scale, keys, faults, clocks))),
  ];
}

function resourcesOf({ events }: Scene): string[] {
  const found = new Set<string>();
  for (const event of events) if (event.kind === 'key-set') found.add(String(event.detail.resource));
  return [...found];
}

function headMarks({ heading }: Scene, width: number): { readonly marks: Mark[]; readonly bottom: number } {
  const bad = heading.verdict === 'bad';
  const marks: Mark[] = [
    { shape: 'text', role: 'title', tone: bad ? 1 : 0, x: NAME_X, y: 26, text: `${bad ? '✗' : '✓'} ${heading.title}` },
  ];
  let y = 46;
  const most = Math.floor((width - 2 * NAME_X) / textWidth('x', 12.5));
  for (const line of heading.sentences.flatMap((it) => wrap(it, most))) {
    marks.push({ shape: 'text', role: 'text', x: NAME_X, y, text: line });
    y += 17;
  }
  for (const line of wrap(heading.config, Math.floor((width - 2 * NAME_X) / textWidth('x', 10)))) {
    marks.push({ shape: 'text', role: 'sub', x: NAME_X, y, text: line });
    y += 14;
  }
  return { marks, bottom: y - 4 };
}

function foldMarks(scale: Scale, top: number, bottom: number): Mark[] {
  return scale.folds.flatMap(({ x, width, us }): Mark[] => {
    const text = `⟨ ${formatDurationMs(us)} ms ⟩`;
    const box: Mark = { shape: 'box', role: 'fold', x: x + width * 0.3, y: top, w: width * 0.4, h: bottom - top };
    if (textWidth(text, 9) > width + 10) return [box];
    return [box, { shape: 'text', role: 'fold', x: x + width / 2, y: bottom + 26, text, anchor: 'middle' }];
  });
}

/** Lasting violations: from when to when. */
function bandMarks(scene: Scene, scale: Scale, top: number, bottom: number): Mark[] {
  const bands = scene.violations.map((it) => ({ fromUs: it.atUs, toUs: it.untilUs ?? it.atUs }));
  return [...bands, ...scene.outages].flatMap(({ fromUs, toUs }): Mark[] => {
    const x = scale.x(fromUs);
    const w = scale.x(toUs) - x;
    return w > 0 ? [{ shape: 'box', role: 'band', x, y: top - STRIP, w, h: bottom - top + STRIP }] : [];
  });
}

const WORDS: Readonly<Record<string, string>> = {
  'mutual-exclusion': 'both',
  'action-in-belief': 'not held',
  validity: 'no majority',
};

function ruleMarks(
  scene: Scene,
  scale: Scale,
  top: number,
  bottom: number,
  lanes: ReadonlyMap<string, PlacedLane>,
): Mark[] {
  const { violations, outages } = scene;
  const items = [
    ...violations.map((it) => ({
      atUs: it.atUs,
      toUs: it.untilUs ?? it.atUs,
      clients: it.clients,
      text: `✗ ${WORDS[it.property] ?? propertyLabel(it.property)}`,
    })),
    ...outages.map((it) => ({ atUs: it.fromUs, toUs: it.toUs, clients: [], text: '✗ nobody can acquire' })),
  ];
  let free = 0;
  return items.flatMap(({ atUs, toUs, text }): Mark[] => {
    const x = scale.x(atUs);
    const rule = (at: number, role: 'rule' | 'thin'): Mark => ({
      shape: 'line',
      role,
      points: [
        [at, top - STRIP + 2],
        [at, bottom],
      ],
    });
    const marks = [rule(x, 'rule')];
    if (toUs > atUs) marks.push(rule(scale.x(toUs), 'thin'));
    const width = textWidth(text, 12) + 8;
    const flip = x + width > scale.right ? x - width : x;
    if (flip < free) return marks;
    free = flip + width;
    marks.push({ shape: 'text', role: 'bad', x: flip + 5, y: top - 6, text });
    return lanes.size > 0 ? marks : [];
  });
}

function axisMarks(scale: Scale, view: View, y: number, width: number): Mark[] {
  const names: Readonly<Record<string, string>> = {
    folded: 'true time, ms',
    true: 'true time, ms',
    order: 'order; ms',
  };
  const ticks = scale.ticks.flatMap(({ x, label }): Mark[] => [
    {
      shape: 'line',
      role: 'tick',
      points: [
        [x, y],
        [x, y + 5],
      ],
    },
    { shape: 'text', role: 'tick', x: Math.min(x, width - 8), y: y + 16, text: label, anchor: 'middle' },
  ]);
  return [
    { shape: 'text', role: 'sub', x: NAME_X, y: y + 16, text: names[view.axis] ?? `clock of ${view.axis}, ms` },
    ...ticks,
  ];
}

function legendMarks(y: number): Mark[] {
  const marks: Mark[] = [];
  let x = NAME_X;
  const word = (text: string): void => {
    marks.push({ shape: 'text', role: 'legend', x: x + 12, y: y + 12, text });
    x += 12 + textWidth(text, 10) + 20;
  };
  const glyph = (name: 'dot' | 'ring' | 'cross', role: 'yes' | 'no' | 'lost', text: string): void => {
    marks.push({ shape: 'glyph', glyph: name, role, x: x + 4, y: y + 8 });
    word(text);
  };
  glyph('dot', 'yes', 'node says yes');
  glyph('ring', 'no', 'node says no');
  glyph('cross', 'lost', 'message lost');
  for (const [role, text] of [
    ['down', 'down'],
    ['frozen', 'frozen'],
    ['thin', 'no quorum'],
  ] as const) {
    marks.push({ shape: 'box', role, x: x - 4, y: y + 3, w: 13, h: 11 });
    word(text);
  }
  marks.push({
    shape: 'line',
    role: 'expiry',
    points: [
      [x + 4, y + 2],
      [x + 4, y + 15],
    ],
  });
  word('expires by the clock of the node');
  marks.push({
    shape: 'line',
    role: 'ghost',
    points: [
      [x + 4, y + 2],
      [x + 4, y + 15],
    ],
  });
  word('by true time');
  return marks;
}
