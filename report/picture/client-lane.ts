import { formatDurationMs } from '../../scenarios/index.js';
import type { TraceEvent } from '../../sim/index.js';
import { numberOf } from '../details.js';
import type { Hold } from '../holds.js';
import { checkWords, reasonWords } from '../rows.js';
import { faultMarks, faultNotes } from './fault-marks.js';
import { bar, commandWords, type LanePlan, rowY } from './lane.js';
import type { Mark } from './marks.js';
import type { FoldedRetries } from './retries.js';
import { type Note, Notes, stacked } from './rows.js';
import type { Scale } from './scale.js';
import type { Scene } from './scene.js';
import type { Disturbances } from './spans.js';

/** A client: what it believes, what it does beyond that, and what befalls it. */
export function clientLane(
  client: string,
  scene: Scene,
  scale: Scale,
  { faults, clocks, retries }: Disturbances,
): LanePlan {
  const claims = scene.claims.filter((it) => it.client === client);
  const own = scene.events.filter((it) => it.process === client);
  const acts = new Map<number, TraceEvent>();
  for (const event of own) if (ACTS.has(event.kind)) acts.set(numberOf(event, 'lock'), event);
  const beliefs = claims.map((claim) => ({ claim, fromUs: claim.fromUs, toUs: lastOf(claim, acts) }));
  const { rowOf, rows } = stacked(beliefs);
  const notes = new Notes(scale.right);
  const folded = retries.filter((it) => it.client === client).map((it) => retryNote(it, scale));
  for (const note of [...clientNotes(own, scene, scale), ...faultNotes(client, scene, scale), ...folded].sort(
    (a, b) => a.x - b.x,
  ))
    notes.add(note);
  return {
    id: client,
    name: client,
    sub: 'client',
    rows,
    notes,
    clock: clocks.has(client),
    bars: (y) => [
      ...beliefs.flatMap(({ claim, toUs }, index) =>
        beliefMarks(claim, toUs, scale, scene, rowY(y, rowOf[index] ?? 0)),
      ),
      ...faultMarks(client, faults, scale, y, rowY(y, rows) - 3),
    ],
  };
}

function retryNote({ count, fromUs, toUs, seq }: FoldedRetries, scale: Scale): Note {
  const text = `× ${count} more tries like this, ${formatDurationMs(fromUs)} to ${formatDurationMs(toUs)} ms`;
  return { x: scale.x(fromUs) + 2, text, role: 'fault', seq };
}

const NO_DETAIL = { detail: {} };

/** What a client does with a claim that it believes in, or believed in. */
const ACTS: ReadonlySet<string> = new Set(['expired', 'release-call', 'write-sent']);

/** When a client last acted on a claim: it may hear late that it is over, or never. */
function lastOf({ lock, seq, end, endUs }: Hold, acts: ReadonlyMap<number, TraceEvent>): number {
  const last = acts.get(lock);
  return end === 'crashed' || last === undefined || last.seq < seq ? endUs : Math.max(endUs, last.atUs);
}

function beliefMarks(claim: Hold, toUs: number, scale: Scale, scene: Scene, y: number): Mark[] {
  const { token: tone, seq } = claim;
  const name = scene.tokenName(tone);
  const from = scale.x(claim.fromUs, seq);
  const end = scale.x(claim.endUs);
  const counter = numberOf(scene.eventOf(seq) ?? NO_DETAIL, 'counter');
  const what = counter === 0 ? name : `${name}, fencing token ${counter}`;
  const how = endWords(claim);
  const texts = [`believes it holds ${what}, ${how}`, `holds ${what}, ${how}`, `holds ${what}`, what, name];
  const words = `${claim.client} believes that it holds ${what} from ${formatDurationMs(claim.fromUs)} ms, ${how}`;
  const marks = bar('belief', from, end, y, texts, { seq, tone, words });
  if (toUs > claim.endUs)
    marks.push(
      ...bar('after', end, scale.x(toUs), y, ['claim over, not yet known', 'claim over'], {
        seq,
        tone,
        words: `${claim.client} does not know yet that its claim to ${name} is over`,
      }),
    );
  return marks;
}

function endWords({ end, endUs }: Hold): string {
  const at = formatDurationMs(endUs);
  return end === 'released' ? `released at ${at}` : end === 'crashed' ? 'died' : `until ${at}`;
}

function clientNotes(own: readonly TraceEvent[], scene: Scene, scale: Scale): Note[] {
  const asked = new Set<string>();
  return own.flatMap((event): Note[] => {
    const tone = numberOf(event, 'token');
    const note = (text: string, role: Note['role'] = 'note'): Note[] => [
      { x: scale.x(event.atUs, event.seq) + 2, text, role, seq: event.seq, ...(tone === 0 ? {} : { tone }) },
    ];
    switch (event.kind) {
      case 'send':
      case 'lost': {
        const { lock, attempt, operation, round } = event.detail;
        const what = `${lock} ${attempt} ${operation} ${round} ${event.atUs}`;
        if (asked.has(what)) return [];
        asked.add(what);
        return note(commandWords(event, scene));
      }
      case 'extended':
        return note(`extended until ${formatDurationMs(numberOf(event, 'endUs'))}`);
      case 'not-extended':
        return note(`not extended: ${reasonWords(event)}`);
      case 'acquire-failed':
        return note(`gives up: ${reasonWords(event)}`);
      case 'expired':
        return lateNote(event, scene, note);
      case 'write-checked':
        return note(checkWords(event));
      case 'write-skipped':
        return note('does not write');
      default:
        return [];
    }
  });
}

function lateNote(event: TraceEvent, { claims }: Scene, note: (text: string) => Note[]): Note[] {
  const claim = claims.find((it) => it.client === event.process && it.lock === numberOf(event, 'lock'));
  return claim !== undefined && claim.endUs < event.atUs ? note('learns that it is over') : [];
}
