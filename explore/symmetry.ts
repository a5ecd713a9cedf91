import { copy } from './copy.js';
import type { StateModel } from './world.js';

/** All orders of 0 to n − 1, the identity first. */
function permutations(n: number): number[][] {
  if (n === 0) return [[]];
  return permutations(n - 1).flatMap((shorter) => {
    const places = Array.from({ length: n }, (_, place) => n - 1 - place);
    return places.map((place) => shorter.toSpliced(place, 0, n - 1));
  });
}

/**
 * Nodes are alike, and so are clients: worlds that differ only in who is called what are one state. Nothing in a bounded
 * world tells them apart except their numbers, since requests go to all nodes at once. One of them stands for all: nodes
 * in the order of what they store, what is on their way, and what they are to each client; clients in the order of their
 * shapes, and where these are equal in the order that makes the state's array smallest.
 */
export class Symmetry {
  private readonly world: StateModel;
  private readonly clientOrders: readonly (readonly number[])[];
  private readonly alike: number;
  /** By the digits of a permutation of the nodes in base 8: its number. */
  private readonly nodeOrderIndex: Uint16Array;
  private readonly order: number[];
  private readonly to: number[];
  private readonly toClient: number[];
  /** By node: its state with the clients renamed. */
  private readonly stored: number[];
  private readonly candidate: Uint16Array;
  private readonly best: Uint16Array;

  constructor(world: StateModel) {
    this.world = world;
    const { nodes, clients } = world.bounds;
    const { change } = world.bounds;
    // Clients that are told of other nodes, or wait, are not alike.
    this.clientOrders = change === null ? permutations(clients) : permutations(clients).slice(0, 1);
    this.alike = world.sets.alike;
    this.nodeOrderIndex = new Uint16Array(8 ** nodes);
    for (const [index, to] of permutations(nodes).entries()) this.nodeOrderIndex[digits(to)] = index;
    this.order = Array.from({ length: nodes }, (_, node) => node);
    this.to = [...this.order];
    this.stored = [...this.order];
    this.toClient = Array.from({ length: clients }, (_, client) => client);
    this.candidate = new Uint16Array(world.size);
    this.best = new Uint16Array(world.size);
  }

  /** Replaces a state by the one that stands for all its like. */
  canonicalize(state: Uint16Array): void {
    let first = true;
    for (let i = 0; i < this.clientOrders.length; i++) {
      const byClient = this.clientOrders[i] ?? [];
      if (this.clientOrders.length > 1 && !this.inOrder(state, byClient)) continue;
      this.rename(state, byClient, i === 0);
      if (first || smaller(this.candidate, this.best)) copy(this.candidate, this.best);
      first = false;
    }
    copy(this.best, state);
  }

  /** Whether clients in this order (`byClient[place]` is who comes there) have ascending shapes. */
  private inOrder(state: Uint16Array, byClient: readonly number[]): boolean {
    const { shapes } = this.world.locks;
    for (let place = 1; place < byClient.length; place++) {
      const before = shapes[state[byClient[place - 1] ?? 0] ?? 0] ?? 0;
      if (before > (shapes[state[byClient[place] ?? 0] ?? 0] ?? 0)) return false;
    }
    return true;
  }

  /** Writes the state with its clients in this order, the usual one if `isSame`, and its nodes sorted, to the candidate. */
  private rename(state: Uint16Array, byClient: readonly number[], isSame: boolean): void {
    const { world, order, to, toClient, stored, candidate } = this;
    const { locks, nodes, firstNode, firstLink, faultsAt, countersAt } = world;
    const count = world.bounds.nodes;
    for (let place = 0; place < firstNode; place++) toClient[byClient[place] ?? 0] = place;
    for (let node = 0; node < count; node++) {
      const id = state[firstNode + node] ?? 0;
      stored[node] = isSame ? id : nodes.renamed(id, toClient);
    }
    for (let i = 0; i < count; i++) {
      let place = i;
      while (i < this.alike && place > 0 && this.compare(state, byClient, order[place - 1] ?? 0, i) > 0) {
        order[place] = order[place - 1] ?? 0;
        place--;
      }
      order[place] = i;
    }
    for (let place = 0; place < count; place++) to[order[place] ?? 0] = place;
    // 0 is that of nodes which stay where they are.
    const index = this.nodeOrderIndex[digits(to)] ?? 0;
    for (let place = 0; place < firstNode; place++) {
      const client = byClient[place] ?? 0;
      const id = state[client] ?? 0;
      candidate[place] = index === 0 ? id : locks.renamed(id, index, to);
      const into = firstLink + place * count;
      const from = firstLink + client * count;
      for (let at = 0; at < count; at++) candidate[into + at] = state[from + (order[at] ?? 0)] ?? 0;
    }
    for (let at = 0; at < count; at++) {
      candidate[firstNode + at] = stored[order[at] ?? 0] ?? 0;
    }
    candidate[faultsAt] = state[faultsAt] ?? 0;
    if (world.sets.begins) candidate[world.changeAt] = state[world.changeAt] ?? 0;
    if (!world.fenced) return;
    candidate[countersAt] = state[countersAt] ?? 0;
    for (let place = 0; place < firstNode; place++) {
      candidate[countersAt + 1 + place] = state[countersAt + 1 + (byClient[place] ?? 0)] ?? 0;
    }
  }

  /** Orders two nodes by everything that the world knows of them. Equal ones can change places unnoticed. */
  private compare(state: Uint16Array, byClient: readonly number[], a: number, b: number): number {
    const { world, stored } = this;
    const difference = (stored[a] ?? 0) - (stored[b] ?? 0);
    if (difference !== 0) return difference;
    for (const client of byClient) {
      const onTheWay = (state[world.linkAt(client, a)] ?? 0) - (state[world.linkAt(client, b)] ?? 0);
      if (onTheWay !== 0) return onTheWay;
      const roles = world.locks.roles[state[client] ?? 0];
      const differs = (roles?.[a] ?? 0) - (roles?.[b] ?? 0);
      if (differs !== 0) return differs;
    }
    return 0;
  }
}

function digits(permutation: readonly number[]): number {
  let digits = 0;
  for (const place of permutation) digits = digits * 8 + place;
  return digits;
}

function smaller(a: Uint16Array, b: Uint16Array): boolean {
  for (let i = 0; i < a.length; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}
