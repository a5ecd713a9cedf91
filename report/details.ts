import { nodeName, type TraceEvent } from '../sim/index.js';

/*
 * What the details of trace events hold. They are loosely typed there, because the hot loop does not build them.
 */

/** A detail that is a number; 0 where there is none. */
export function numberOf(event: Pick<TraceEvent, 'detail'>, name: string): number {
  const value = event.detail[name];
  return typeof value === 'number' ? value : 0;
}

/** A detail that is a text; empty where there is none. */
export function textOf(event: Pick<TraceEvent, 'detail'>, name: string): string {
  const value = event.detail[name];
  return typeof value === 'string' ? value : '';
}

/** The command of a client that does not run the lock of `core`, as it is; empty where the command says it all. */
export function saidOf(event: Pick<TraceEvent, 'detail'>, token: string): string {
  return textOf(event, 'said').replaceAll('{token}', token);
}

/** A detail that is a list; empty where there is none. */
export function listOf(event: Pick<TraceEvent, 'detail'>, name: string): readonly string[] {
  const value = event.detail[name];
  return typeof value === 'object' ? value : [];
}

/** A detail that is a set of nodes, as their names. */
export function nodesOf(event: Pick<TraceEvent, 'detail'>, name: string): string[] {
  const set = numberOf(event, name);
  const names: string[] = [];
  for (let node = 0, rest = set; rest !== 0; node++, rest >>>= 1) if ((rest & 1) !== 0) names.push(nodeName(node));
  return names;
}
