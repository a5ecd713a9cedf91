import { has, NO_NODES, type NodeSet, oneNode, size, union } from '../core/index.js';

/** What nodes say to extensions that a library sends of its own accord, and tells nobody of. */
export class Extensions {
  private asked: NodeSet = NO_NODES;
  private granted: NodeSet = NO_NODES;

  /** A node is asked; for the second time, this is a new round. */
  sent(node: number): void {
    if (has(this.asked, node)) this.givenUp();
    this.asked = union(this.asked, oneNode(node));
  }

  /** The client gives the lock back: what nodes still say to earlier extensions counts no more. */
  givenUp(): void {
    this.asked = NO_NODES;
    this.granted = NO_NODES;
  }

  /** Who has extended it in this round; `null` where nobody was asked. */
  get by(): NodeSet | null {
    return this.asked === NO_NODES ? null : this.granted;
  }

  /** A node said yes. Whether with this one it is a majority, for the first time in the round. */
  answered(node: number, majority: number): boolean {
    if (has(this.granted, node) || !has(this.asked, node)) return false;
    this.granted = union(this.granted, oneNode(node));
    return size(this.granted) === majority;
  }
}
