import type { Violation } from '../../properties/index.js';
import type { TraceEvent } from '../../sim/index.js';
import { listOf, nodesOf, numberOf, textOf } from '../details.js';
import type { Hold } from '../holds.js';
import type { Scene } from './scene.js';

/**
 * The event at which a violation begins: the claim or the write that made it one, else the last event of its instant.
 * `undefined` if no event is that early.
 */
export function violationEvent(
  violation: Pick<Violation, 'atUs' | 'clients'>,
  { events }: Scene,
): TraceEvent | undefined {
  const { atUs, clients } = violation;
  const acts = (it: TraceEvent): boolean => it.kind === 'claim' || it.kind === 'write-arrived';
  return (
    events.findLast((it) => it.atUs === atUs && acts(it) && (clients.length === 0 || clients.includes(it.process))) ??
    events.findLast((it) => it.atUs <= atUs)
  );
}

/** All events that led to what went wrong; `null` where nothing did. */
export function causalPath(scene: Scene): ReadonlySet<number> | null {
  const { violations } = scene;
  if (violations.length === 0) return null;
  const path = new Set<number>();
  for (const violation of violations) {
    const event = violationEvent(violation, scene);
    if (event !== undefined) addCauses(event, path, scene);
    for (const hold of holdsIn(violation, scene.claims)) addHold(hold, violation.atUs, path, scene);
  }
  addFaults(path, scene);
  return path;
}

/** The holds that a violation is about. */
export function holdsIn({ clients, atUs, resource }: Violation, holds: readonly Hold[]): Hold[] {
  return clients.flatMap((client) => {
    const own = holds.filter((it) => it.client === client && it.resources.includes(resource));
    const now = own.filter((it) => it.fromUs <= atUs && atUs < it.endUs);
    return now.length > 0 ? now : own.slice(-1);
  });
}

function addCauses(event: TraceEvent, path: Set<number>, scene: Scene): void {
  for (let it: TraceEvent | undefined = event; it !== undefined && !path.has(it.seq); it = scene.eventOf(it.cause))
    path.add(it.seq);
}

/** How a hold came about, and how the votes for it went: requests, votes, answers, and what took keys away too early. */
function addHold(hold: Hold, atUs: number, path: Set<number>, scene: Scene): void {
  const claim = scene.eventOf(hold.seq);
  if (claim === undefined) return;
  addCauses(claim, path, scene);
  const voters = new Set([...hold.voters, ...nodesOf(claim, 'granted')]);
  for (const event of scene.events) {
    if (event.atUs > Math.max(atUs, hold.fromUs)) break;
    const isOurs = numberOf(event, 'token') === hold.token;
    const isVoter = voters.has(event.process);
    if (event.kind === 'key-set' && isOurs && isVoter) addCauses(event, path, scene);
    else if (event.kind === 'key-gone' && isOurs && isVoter) addCauses(event, path, scene);
    else if (event.kind === 'reply' && isOurs && event.seq <= hold.seq && textOf(event, 'answer') === 'yes')
      addCauses(event, path, scene);
    // Why others were free to vote for somebody else.
    else if (event.kind === 'lost' && isOurs && event.process === hold.client) path.add(event.seq);
  }
}

/** Faults without a process of the path: clocks that are wrong, and clients that stand still, while a hold lasts. */
function addFaults(path: Set<number>, { events, claims, violations }: Scene): void {
  const clients = new Set(violations.flatMap((it) => it.clients));
  const nodes = new Set(claims.filter((it) => clients.has(it.client)).flatMap((it) => it.voters));
  for (const event of events) {
    const isTiming = /^(pause|suspend|clock-step|clock-drift|partition|refuse)$/.test(event.kind);
    if (!isTiming) continue;
    const isNear = clients.has(event.process) || nodes.has(event.process) || listOf(event, 'from').length > 0;
    if (isNear) path.add(event.seq);
  }
}
