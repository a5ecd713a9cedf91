import { HOLD_SLOT, type WorldView } from '../sim/index.js';

/** True times ahead at which claims end or keys expire, as things stand: where leases break, if they do. */
export function instantsAhead(view: WorldView): number[] {
  const { now } = view;
  const instants: number[] = [];
  for (const client of view.clients) {
    const lock = client.locks[client.locks.length - 1];
    if (lock?.believes(now)) instants.push(lock.endsAt);
  }
  for (const node of view.nodes) {
    for (let key = 0; key < node.keys.count; key++) {
      if (node.holds(key)) instants.push(node.clock.when(node.goneAt(key), now));
    }
  }
  return instants;
}

/** True times ahead at which locks are released, as things stand. */
export function releasesAhead({ clients }: WorldView): number[] {
  const instants: number[] = [];
  for (const { locks } of clients) {
    const due = locks[locks.length - 1]?.armed[HOLD_SLOT];
    if (due != null) instants.push(due.at);
  }
  return instants;
}
