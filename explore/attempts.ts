import type { ExploreScope } from './bounds.js';
import type { Commands, Links } from './links.js';
import type { Locks } from './locks.js';
import type { Nodes } from './nodes.js';

/** What of a bounded world tells of attempts. */
interface AttemptsHost {
  readonly bounds: ExploreScope;
  readonly locks: Locks;
  readonly nodes: Nodes;
  readonly links: Links;
  readonly commands: Commands;
  readonly firstNode: number;
  linkAt(client: number, node: number): number;
}

/**
 * The attempts of a client that anything still tells of: its lock, a message on its way, a key. Where clients try for
 * ever, those are renumbered from 0 in their order, because nothing depends on more than which is which and which is the
 * last; and so a world in which attempts have no end has an end.
 */
export class Attempts {
  private readonly host: AttemptsHost;

  constructor(host: AttemptsHost) {
    this.host = host;
  }

  /** How many attempts of a client have left traces: a message on its way, or a key. */
  traced(state: Uint16Array, client: number): number {
    let count = 0;
    for (let mask = this.traces(state, client); mask !== 0; mask &= mask - 1) count++;
    return count;
  }

  /** Renumbers the attempts of all clients, in place. */
  renumber(state: Uint16Array): void {
    for (let client = 0; client < this.host.bounds.clients; client++) {
      const mask = this.mask(state, client);
      if ((mask & (mask + 1)) !== 0) this.retell(state, client, placesIn(mask));
    }
  }

  private mask(state: Uint16Array, client: number): number {
    const { lock } = this.host.locks.at(state[client] ?? 0);
    if (lock.attempt.token === null) return 0;
    return this.traces(state, client) | (1 << lock.attempt.number) | (1 << (Number(lock.attempt.token) - 1));
  }

  private traces(state: Uint16Array, client: number): number {
    const { bounds, nodes, links, commands, firstNode } = this.host;
    let mask = 0;
    const note = (command: number): void => {
      const { attempt, token } = commands.at(command);
      mask |= (1 << attempt) | (1 << (Number(token) - 1));
    };
    for (let node = 0; node < bounds.nodes; node++) {
      const { requests, replies } = links.at(state[this.host.linkAt(client, node)] ?? 0);
      for (const command of requests) note(command);
      for (const reply of replies) note(commands.reply(reply).command);
      const owner = nodes.ownerOf(state[firstNode + node] ?? 0);
      if (owner?.client === client) mask |= 1 << (owner.token - 1);
    }
    return mask;
  }

  private retell(state: Uint16Array, client: number, to: readonly number[]): void {
    const { bounds, locks, nodes, links, commands, firstNode } = this.host;
    state[client] = locks.retold(state[client] ?? 0, to);
    for (let node = 0; node < bounds.nodes; node++) {
      const at = this.host.linkAt(client, node);
      state[at] = links.retold(state[at] ?? 0, commands, to);
      const owner = nodes.ownerOf(state[firstNode + node] ?? 0);
      if (owner?.client !== client) continue;
      state[firstNode + node] = nodes.retold(state[firstNode + node] ?? 0, client, (to[owner.token - 1] ?? 0) + 1);
    }
  }
}

/** For each bit of the mask that is set, how many lower ones are. */
function placesIn(mask: number): number[] {
  const places: number[] = [];
  let place = 0;
  for (let bit = 0; mask >> bit !== 0; bit++) {
    places.push(place);
    if (((mask >> bit) & 1) === 1) place++;
  }
  return places;
}
