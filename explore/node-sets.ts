import type { ExploreScope } from './bounds.js';

/** Which nodes each client is told of, and what a change of them lets it do. */
export class NodeSets {
  /** By client, in its order. */
  readonly sets: readonly (readonly number[])[];
  /** Nodes that are turned off as the change begins. */
  readonly off: readonly number[];
  /** Whether there is a change that begins at some time. */
  readonly begins: boolean;
  private readonly isOld: readonly boolean[];
  private readonly wait: number;
  private readonly drained: boolean;

  constructor({ nodes, clients, change }: ExploreScope) {
    const everywhere = Array.from({ length: nodes }, (_, node) => node);
    this.sets = Array.from({ length: clients }, (_, client) => change?.sets[client] ?? everywhere);
    this.isOld = this.sets.map((set) => set.join() === this.sets[0]?.join());
    this.off = change?.off ?? [];
    this.begins = typeof change?.wait === 'number';
    this.wait = change?.wait ?? 0;
    this.drained = change?.drained ?? false;
  }

  /** What stands in a state as the change begins: one more than the ticks that are left to wait; 0 before that. */
  get begun(): number {
    return this.wait + 1;
  }

  /** So many nodes, the first ones, are for each client at the place that is their number, so that they can change places. */
  get alike(): number {
    const { length } = this.sets[0] ?? [];
    for (let node = 0; node < (length ?? 0); node++) if (this.sets.some((set) => set[node] !== node)) return node;
    return length ?? 0;
  }

  /** How many nodes a client is told of. */
  sizeOf(client: number): number {
    return this.sets[client]?.length ?? 0;
  }

  /** The node that is at a place of a client's. */
  nodeAt(client: number, place: number): number {
    return this.sets[client]?.[place] ?? place;
  }

  /** The place of a node among those of a client. */
  placeOf(client: number, node: number): number {
    return this.sets[client]?.indexOf(node) ?? node;
  }

  /** Whether a client may ask for something: an old one until it is drained, another when it has waited. */
  mayAsk(client: number, left: number): boolean {
    if (!this.begins) return true;
    return this.isOld[client] ? left === 0 || !this.drained : left === 1;
  }
}
