import { judge } from '../../properties/judge.js';
import type { PropertyId, Schedule } from '../../scenarios/index.js';
import type { TraceEvent } from '../../sim/index.js';

/** What is asked about a schedule that tells clients apart. A client fails it where: */
export type Question =
  /** one of these is violated; of `acquisition` only with these words in its detail, if there are any. */
  | { readonly kind: 'violates'; readonly properties: readonly PropertyId[]; readonly words?: string }
  /** this client has not acquired by then, ms of true time. */
  | { readonly kind: 'acquires'; readonly client: string; readonly byMs: number }
  /** keys of this client are on a node then, ms of true time, and it holds no lock. */
  | { readonly kind: 'no-key-left'; readonly client: string; readonly atMs: number }
  /** this client has extended its lock more often than this by then, ms of true time. */
  | { readonly kind: 'extends-at-most'; readonly client: string; readonly times: number; readonly byMs: number }
  /** this client has never extended its lock. */
  | { readonly kind: 'extends'; readonly client: string };

/** Whether the clients of a schedule fail a question. */
export function fails(question: Question, schedule: Schedule): boolean {
  const { run, violations } = judge(schedule, question.kind === 'violates' ? question.properties : [], true);
  switch (question.kind) {
    case 'violates':
      return violations.some(
        ({ property, detail }) =>
          question.properties.includes(property) &&
          (property !== 'acquisition' || question.words === undefined || detail.includes(question.words)),
      );
    case 'acquires':
      return !run.trace.some((it) => isOf(it, 'claim', question.client) && it.atUs < question.byMs * 1000);
    case 'no-key-left':
      return leavesKeys(
        run.trace.filter((it) => it.atUs <= question.atMs * 1000),
        question.client,
      );
    case 'extends-at-most': {
      const { client, byMs, times } = question;
      return run.trace.filter((it) => isOf(it, 'extended', client) && it.atUs < byMs * 1000).length > times;
    }
    case 'extends':
      return !run.trace.some((it) => isOf(it, 'extended', question.client));
  }
}

function isOf({ kind, process }: TraceEvent, wanted: TraceEvent['kind'], client: string): boolean {
  return kind === wanted && process === client;
}

const TURNS: readonly TraceEvent['kind'][] = ['claim', 'acquire-failed', 'release-call', 'client-crash'];

function leavesKeys(trace: readonly TraceEvent[], client: string): boolean {
  const last = trace.findLast(({ kind, process }) => process === client && TURNS.includes(kind));
  if (last?.kind === 'claim') return false;
  const keys = new Set<string>();
  for (const { kind, process, detail } of trace) {
    const key = `${process} ${String(detail.token)}`;
    if (kind === 'key-set' && detail.owner === client) keys.add(key);
    else if (kind === 'key-gone') keys.delete(key);
  }
  return keys.size > 0;
}
