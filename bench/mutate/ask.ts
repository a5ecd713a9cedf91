import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { SWITCH } from './instrument.js';
import type { Answer, Question } from './oracle.js';

/** What is asked. */
export interface Inquiry {
  /** Folder of the built house. */
  readonly built: string;
  /** Histories to draw. */
  readonly runs: number;
  /** Whether it is about the variants of the scenarios, or about all else. */
  readonly variants: boolean;
  /** A mutant that takes longer than this is killed by that, ms. */
  readonly patienceMs: number;
}

/** Has scenarios and search look at mutants, one after the other, in a worker that is replaced when one does not end. */
export async function ask(
  inquiry: Inquiry,
  ids: readonly number[],
  take: (answer: Answer | { readonly id: number; readonly killer: 'time-out'; readonly how: string }) => void,
): Promise<void> {
  let left = [...ids];
  while (left.length > 0) {
    const hung = await askSome(inquiry, left, (answer) => {
      left = left.filter((id) => id !== answer.id);
      take(answer);
    });
    if (hung === null) return;
    left = left.filter((id) => id !== hung);
    take({ id: hung, killer: 'time-out', how: '' });
  }
}

/** @returns The mutant that did not end, or `null`. */
function askSome(
  { built, runs, variants, patienceMs }: Inquiry,
  ids: readonly number[],
  take: (answer: Answer) => void,
): Promise<number | null> {
  const question: Question = { house: `${pathToFileURL(built)}/`, switch: SWITCH, ids, runs, variants };
  const worker = new Worker(new URL('./oracle.js', import.meta.url), { workerData: question });
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const finish = (hung: number | null): void => {
      clearTimeout(timer);
      void worker.terminate();
      resolve(hung);
    };
    worker.on('message', (message: Answer | { readonly id: number }) => {
      clearTimeout(timer);
      if ('killer' in message) take(message);
      timer = setTimeout(() => finish('killer' in message ? null : message.id), patienceMs);
    });
    worker.on('error', reject);
    worker.on('exit', () => finish(null));
  });
}
