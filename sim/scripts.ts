import type { Command, Operation, Rules } from '../core/index.js';

/** In the place of a counter: the node does not know the script of the command. */
export const NO_SCRIPT = -1;

/** Whether a command is a script: one key is set without a script, and deleted or given a TTL without one by a client that does not look at the owner. */
export function isScript({ scripts }: Rules, { operation }: Command, keys: readonly number[]): boolean {
  switch (operation) {
    case 'acquire':
      return keys.length > 1 || scripts.acquire.plain === null;
    case 'extend':
      return keys.length > 1 || !scripts.extend.plain;
    case 'release':
      return !scripts.release.plain;
    default:
      return true;
  }
}

/** The scripts that a node knows by their hash: all, as long as the process lives to which clients connected first. */
export class ScriptCache {
  private lost = false;
  private known: Operation[] = [];

  /** As a new one. */
  reset(): void {
    this.lost = false;
    if (this.known.length > 0) this.known = [];
  }

  knows(operation: Operation): boolean {
    return !this.lost || this.known.includes(operation);
  }

  /** Keeps the script of a command that came with its text. */
  keep(operation: Operation): void {
    if (!this.knows(operation)) this.known.push(operation);
  }

  /** The process is another one. */
  lose(): void {
    this.lost = true;
    this.known = [];
  }
}
