import type { Command } from '../core/index.js';
import type { ExploreScope } from './bounds.js';
import type { Link, NumberedReply } from './links.js';
import type { Local } from './locks.js';
import type { NodeState } from './nodes.js';
import type { StateModel } from './world.js';

/** What the numbers in a state stand for. */
export interface Parts {
  readonly commands: readonly Command[];
  readonly replies: readonly NumberedReply[];
  readonly counters: readonly number[];
  readonly locals: readonly Local[];
  readonly nodes: readonly NodeState[];
  readonly links: readonly Link[];
}

/**
 * An exploration that was stopped, to go on with. States are numbers of parts, so that the parts belong to it, in the
 * order in which they were met. Plain data: the caller chooses how to keep it.
 */
export interface Checkpoint extends Parts {
  readonly schema: 'lockstep.exploration/3';
  readonly bounds: ExploreScope;
  /** What else was asked for, as far as it decides what is met in which order. */
  readonly asked: string;
  /** How the states are packed: by kind of number, its bits. */
  readonly bits: readonly number[];
  readonly states: Uint32Array;
  readonly parents: Uint32Array;
  readonly stack: readonly number[];
  readonly cursor: number;
  readonly depth: number;
  readonly depthEnds: number;
  readonly transitions: number;
}

/** Has a world take over the parts of another one in their order, so that its numbers mean the same there. */
export function restoreParts(world: StateModel, parts: Parts): void {
  for (const command of parts.commands) world.commands.idOf(command);
  for (const reply of parts.replies) world.commands.replyId(reply);
  for (const counter of parts.counters) world.counterId(counter);
  for (const local of parts.locals) world.locks.idOf(local);
  for (const node of parts.nodes) world.nodes.idOf(node);
  for (const link of parts.links) world.links.idOf(link);
}
