import type { LocalTime } from '../core/index.js';
import type { Fault } from '../scenarios/index.js';

/** A fault with its place in the schedule, which is its place among faults of the same instant. */
export class PlannedFault {
  fault: Fault;
  index: number;
  /** The node that it is about, or -1; and the client, or -1. */
  node = -1;
  client = -1;
  /** Of a crash that struck: which life of its node waits for the restart. */
  life = -1;
  /** Of a crash that struck: what the node will remember was done by then, µs of true time. */
  keptUntil = -1;
  /** Of a crash that struck, where the node's clock says when it is over: what it has to show. */
  restartAt: LocalTime | null = null;

  constructor(fault: Fault, index: number) {
    this.fault = fault;
    this.index = index;
  }

  /** Says what it is about. */
  isAbout(node: number, client: number): void {
    this.node = node;
    this.client = client;
  }

  /** As a new one. */
  reset(fault: Fault, index: number): void {
    this.fault = fault;
    this.index = index;
    this.life = -1;
    this.keptUntil = -1;
    this.restartAt = null;
  }
}
