import type { TraceEvent } from '../../sim/index.js';
import { numberOf } from '../details.js';
import type { Scene } from './scene.js';

/** How far a clock was off at an instant. */
interface ClockPoint {
  readonly atUs: number;
  readonly seq: number;
  readonly offsetUs: number;
}

/** Below this a clock is as good as right, µs. */
const WRONG_US = 400;

/** The clock of a process, as its own events tell it; at a jump there are two points. */
export function clockPoints(process: string, { events, eventOf }: Scene): ClockPoint[] {
  const points: ClockPoint[] = [];
  for (const event of events) {
    if (event.process !== process) continue;
    const point = { atUs: event.atUs, seq: event.seq, offsetUs: event.localUs - event.atUs };
    const last = points.at(-1);
    const jump = jumpOf(event);
    if (jump !== 0 && last !== undefined && Math.abs(point.offsetUs - last.offsetUs) > Math.abs(jump) / 2) {
      points.push({ ...point, offsetUs: point.offsetUs - jump });
    }
    if (last?.offsetUs === point.offsetUs && eventOf(last.seq)?.kind !== 'clock-step' && points.length > 1)
      points.pop();
    points.push(point);
  }
  return points;
}

function jumpOf(event: TraceEvent): number {
  return event.kind === 'clock-step' ? numberOf(event, 'byUs') : 0;
}

/** Processes whose clocks are ever wrong. */
export function wrongClocks({ events, schedule }: Scene): ReadonlySet<string> {
  const wrong = new Set(
    schedule.cluster.clocks.filter((it) => it.ratePpm !== 0 || it.offsetUs !== 0).map((it) => it.process),
  );
  for (const event of events) if (Math.abs(event.localUs - event.atUs) > WRONG_US) wrong.add(event.process);
  return wrong;
}
