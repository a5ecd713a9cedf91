import { localTime } from '../core/index.js';
import type { Habits } from '../deviations/index.js';
import type { Schedule } from '../scenarios/index.js';
import { Clocks, clockOf, policyFor, setupOf, type TraceEvent, trueTime } from '../sim/index.js';
import { listOf, nodesOf, numberOf, textOf } from './details.js';

/** The time in which a client believed that it held a lock, seen from outside. */
export interface Hold {
  readonly client: string;
  /** Number of the lock in the client's plan. */
  readonly lock: number;
  readonly token: number;
  readonly resources: readonly string[];
  /** Nodes that had voted for it when it began. */
  readonly voters: readonly string[];
  readonly quorum: number;
  /** Place of its beginning in the trace. */
  readonly seq: number;
  readonly fromUs: number;
  /** When it was released, its client died, or its validity ended by its client's clock; µs of true time. */
  readonly endUs: number;
  readonly end: 'released' | 'expired' | 'crashed' | 'open';
}

type Open = { -readonly [K in keyof Hold]: Hold[K] } & { deadlineUs: number };

/** All claims of a run, in order. */
export function holdsOf(schedule: Schedule, trace: readonly TraceEvent[]): Hold[] {
  const setup = setupOf(schedule);
  const clocks = new Map<string, Clocks>();
  for (const id of setup.clients) {
    const { offsetUs, ratePpm } = clockOf(setup, id);
    clocks.set(id, new Clocks(offsetUs, ratePpm));
  }
  const claims: Open[] = [];
  const openOf = (event: TraceEvent): Open | undefined =>
    claims.find((it) => it.client === event.process && it.lock === numberOf(event, 'lock') && it.end === 'open');
  for (const event of trace) {
    switch (event.kind) {
      case 'claim':
        claims.push(opened(event));
        break;
      case 'extended':
        prolong(claims, openOf(event), event);
        break;
      case 'release-call':
        close(openOf(event), 'released', event.atUs);
        break;
      case 'expired': {
        const claim = openOf(event);
        close(claim, 'expired', Math.min(claim?.endUs ?? 0, event.atUs));
        break;
      }
      case 'client-crash':
        for (const claim of claims) {
          if (claim.client === event.process && claim.end === 'open') close(claim, 'crashed', event.atUs);
        }
        break;
      case 'clock-step':
      case 'clock-drift':
      case 'suspend':
        changeClock(
          clocks.get(event.process),
          policyFor(setup, setup.clients.indexOf(event.process)).habits.clock,
          claims,
          event,
        );
        break;
    }
  }
  return claims;
}

function opened(event: TraceEvent): Open {
  return {
    client: event.process,
    lock: numberOf(event, 'lock'),
    token: numberOf(event, 'token'),
    resources: listOf(event, 'resources'),
    voters: nodesOf(event, 'granted'),
    quorum: numberOf(event, 'quorum'),
    seq: event.seq,
    fromUs: event.atUs,
    endUs: numberOf(event, 'endUs'),
    deadlineUs: numberOf(event, 'deadlineUs'),
    end: 'open',
  };
}

function prolong(claims: Open[], claim: Open | undefined, event: TraceEvent): void {
  if (claim === undefined) {
    // An unsound policy extends what has lapsed: the client believes again.
    claims.push(opened(event));
    return;
  }
  claim.endUs = numberOf(event, 'endUs');
  claim.deadlineUs = numberOf(event, 'deadlineUs');
}

function close(claim: Open | undefined, end: Hold['end'], atUs: number): void {
  if (claim === undefined) return;
  claim.end = end;
  claim.endUs = Math.min(claim.endUs, atUs);
}

/** A claim ends by the clock that its client reads, so that it ends at another true time now. */
function changeClock(
  clocks: Clocks | undefined,
  kind: Habits['clock'],
  claims: readonly Open[],
  event: TraceEvent,
): void {
  if (clocks === undefined) return;
  const at = trueTime(event.atUs);
  if (event.kind === 'clock-step') clocks.wall.step(at, numberOf(event, 'byUs'));
  else if (event.kind === 'clock-drift') clocks.setRate(at, numberOf(event, 'ratePpm'));
  else clocks.suspend(at, trueTime(numberOf(event, 'untilUs')), stopped(event));
  const clock = clocks.read(kind);
  if (clock.changedAt !== at) return;
  for (const claim of claims) {
    if (claim.client === event.process && claim.end === 'open') {
      claim.endUs = clock.when(localTime(claim.deadlineUs), at);
    }
  }
}

function stopped(event: TraceEvent): 'monotonic' | 'all' {
  return textOf(event, 'stops') === 'all' ? 'all' : 'monotonic';
}
