import { formatDurationMs } from '../scenarios/index.js';
import type { TraceEvent } from '../sim/index.js';
import { textOf } from './details.js';
import { commandOf, describeEvent } from './event-words.js';
import { isFault } from './fault-words.js';
import type { Arrow } from './picture/messages.js';
import { arrowsOf } from './picture/messages.js';
import type { Scene } from './picture/scene.js';

/** More lines than this are more than a tracker draws. */
const MOST_LINES = 400;

/** A run as a Mermaid sequence diagram, for issue trackers and documents. */
export function mermaid(scene: Scene): string {
  const arrows = new Map<number, Arrow[]>();
  for (const arrow of arrowsOf(scene)) arrows.set(arrow.seq, [...(arrows.get(arrow.seq) ?? []), arrow]);
  const lines = [...ruled(scene, arrows)];
  const left = lines.length - MOST_LINES;
  const shown = left > 0 ? [...lines.slice(0, MOST_LINES), note(scene, `${left} more lines`)] : lines;
  return [
    'sequenceDiagram',
    `  %% ${scene.heading.title}: ${scene.heading.sentences.join(' ')}`,
    ...scene.clients.map((it) => `  actor ${it}`),
    ...scene.nodes.map((it) => `  participant ${it}`),
    ...(scene.events.some(({ kind }) => kind.startsWith('write-')) ? ['  participant resource'] : []),
    ...shown.map((line) => `  ${line}`),
    `  ${note(scene, scene.heading.sentences.join(' '))}`,
    '',
  ].join('\n');
}

/** Events line by line, the violations in a frame of their own. */
function* ruled(scene: Scene, arrows: ReadonlyMap<number, readonly Arrow[]>): Generator<string> {
  const starts = scene.violations.map((it) => it.atUs);
  for (const event of scene.events) {
    for (const line of linesOf(event, scene, arrows)) yield line;
    if (starts.includes(event.atUs) && scene.violations.some((it) => isBeginning(event, it.clients))) {
      const found = scene.violations.find((it) => it.atUs === event.atUs);
      if (found !== undefined) yield note(scene, `✗ ${found.detail}`);
    }
  }
}

function isBeginning(event: TraceEvent, clients: readonly string[]): boolean {
  return clients.includes(event.process) && (event.kind === 'claim' || event.kind === 'extended');
}

function linesOf(event: TraceEvent, scene: Scene, arrows: ReadonlyMap<number, readonly Arrow[]>): string[] {
  const own = arrows.get(event.seq);
  if (own !== undefined) return own.map((arrow) => arrowLine(arrow, event, scene));
  switch (event.kind) {
    case 'claim':
    case 'extended':
    case 'expired':
    case 'acquire-failed':
      return [noteOf(event, scene)];
    case 'key-gone':
      return textOf(event, 'how') === 'deleted' ? [] : [noteOf(event, scene)];
    default:
      return isFault(event.kind) ? [noteOf(event, scene)] : [];
  }
}

function noteOf(event: TraceEvent, scene: Scene): string {
  return `Note over ${event.process}: ${escaped(`${formatDurationMs(event.atUs)} ms: ${describeEvent(event, scene)}`)}`;
}

function arrowLine(arrow: Arrow, event: TraceEvent, scene: Scene): string {
  const to = arrow.kind === 'write' ? 'resource' : arrow.to;
  const words = arrow.kind === 'request' ? commandOf(event, scene) : arrow.kind === 'reply' ? arrow.answer : 'write';
  const line = arrow.fate === 'arrives' ? (arrow.kind === 'reply' ? '-->>' : '->>') : '--x';
  const when =
    arrow.toUs === null
      ? formatDurationMs(arrow.fromUs)
      : `${formatDurationMs(arrow.fromUs)} → ${formatDurationMs(arrow.toUs)}`;
  const fate = arrow.fate === 'arrives' ? '' : `, ${arrow.fate === 'flying' ? 'still on its way' : arrow.fate}`;
  return `${arrow.from}${line}${to}: ${escaped(`${when}: ${words}${fate}`)}`;
}

function note({ clients, nodes }: Scene, text: string): string {
  return `Note over ${clients[0]},${nodes.at(-1)}: ${escaped(text)}`;
}

/** Characters that end a statement in Mermaid. */
function escaped(text: string): string {
  return text.replaceAll('#', '#35;').replaceAll(';', '#59;').replaceAll('\n', ' ');
}
