import { formatDurationMs } from '../../scenarios/index.js';
import type { TraceEvent } from '../../sim/index.js';
import { listOf, numberOf } from '../details.js';
import { bar, type LanePlan, rowY } from './lane.js';
import type { Mark } from './marks.js';
import { resourceLane } from './messages.js';
import { Notes, stacked } from './rows.js';
import type { Scale } from './scale.js';
import type { Scene } from './scene.js';
import type { QuorumSpan } from './spans.js';

/** When a quorum really held which token, seen from outside. */
export function quorumLane(resource: string, scene: Scene, scale: Scale, all: readonly QuorumSpan[]): LanePlan {
  const spans = all.filter((it) => it.resource === resource).sort((a, b) => a.fromUs - b.fromUs);
  const { rowOf, rows } = stacked(spans);
  return {
    id: `truth ${resource}`,
    name: `lock ${resource}`,
    sub: 'quorum',
    rows,
    notes: new Notes(scale.right),
    clock: false,
    bars: (y) => spans.flatMap((span, index) => truthMarks(span, scene, scale, rowY(y, rowOf[index] ?? 0))),
  };
}

function truthMarks(span: QuorumSpan, scene: Scene, scale: Scale, y: number): Mark[] {
  const { token: tone, seq, endSeq, votes, nodes, quorum } = span;
  const name = `${scene.tokenName(tone)} ${votes}/${nodes}`;
  const has = votes >= quorum;
  const texts = has ? [`a quorum holds ${name}`, name] : [`${name}: no quorum`, name];
  const what = has ? 'a quorum' : 'too few for a quorum';
  const words = `${votes} of ${nodes} nodes have ${scene.tokenName(tone)}, ${what}: ${formatDurationMs(span.fromUs)} to ${formatDurationMs(span.toUs)} ms`;
  return bar(
    has ? 'truth' : 'thin',
    Math.max(...span.seqs.map((it) => scale.x(span.fromUs, it))),
    scale.x(span.toUs, endSeq),
    y,
    texts,
    {
      seq,
      tone,
      words,
    },
  );
}

/** The protected resource: writes that it took or refused. */
export function writesLane(resource: string, scene: Scene, scale: Scale): LanePlan {
  const writes = scene.events.filter(
    (it) => (it.kind === 'write-arrived' || it.kind === 'write-refused') && listOf(it, 'resources').includes(resource),
  );
  const notes = new Notes(scale.right);
  for (const write of writes) {
    notes.add({
      x: scale.x(write.atUs, write.seq) + 2,
      text: writeWords(write, scene),
      role: write.kind === 'write-arrived' && numberOf(write, 'stale') === 1 ? 'bad' : 'note',
      seq: write.seq,
      tone: numberOf(write, 'token'),
    });
  }
  return {
    id: resourceLane(resource),
    name: `data ${resource}`,
    sub: 'writes',
    rows: 1,
    notes,
    clock: false,
    bars: (y) =>
      writes.map((write) => ({
        shape: 'glyph',
        glyph: 'diamond',
        role: write.kind === 'write-refused' ? 'no' : 'write',
        x: scale.x(write.atUs, write.seq),
        y: y + 9,
        seq: write.seq,
        tone: numberOf(write, 'token'),
      })),
  };
}

function writeWords(write: TraceEvent, scene: Scene): string {
  const who = `${write.process} (${scene.tokenName(numberOf(write, 'token'))})`;
  if (write.kind === 'write-refused') return `refused: write of ${who}`;
  return numberOf(write, 'stale') === 1 ? `taken, too late: write of ${who}` : `taken: write of ${who}`;
}
