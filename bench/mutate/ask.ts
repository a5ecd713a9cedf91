import { fork } from 'node:child_process';
import { pathToFileURL } from 'node:url';
import { SWITCH } from './instrument.js';
import type { Answer, Question } from './oracle.js';

/** What is asked. */
interface Inquiry {
  /** Folder of the built house. */
  readonly built: string;
  /** Histories to draw. */
  readonly runs: number;
  /** Whether it is about the variants of the scenarios, or about all else. */
  readonly variants: boolean;
  /** A mutant that takes longer than this is killed by that, ms. */
  readonly patienceMs: number;
}

/** Has scenarios and search look at mutants, one after the other, in a process that is replaced when one does not end. */
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

/** @returns The mutant that did not end, or that ended the process, or `null`. */
function askSome(
  { built, runs, variants, patienceMs }: Inquiry,
  ids: readonly number[],
  take: (answer: Answer) => void,
): Promise<number | null> {
  const question: Question = { house: `${pathToFileURL(built)}/`, switch: SWITCH, ids, runs, variants };
  // A process, because what eats all memory before its time is up takes everything else in its process with it.
  const child = fork(new URL('./oracle.js', import.meta.url), [JSON.stringify(question)], {
    execArgv: ['--max-old-space-size=1024'],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    let asked: number | null = null;
    child.on('message', (message: Answer | { readonly id: number }) => {
      clearTimeout(timer);
      asked = 'killer' in message ? null : message.id;
      if ('killer' in message) take(message);
      else timer = setTimeout(() => child.kill('SIGKILL'), patienceMs);
    });
    child.on('error', reject);
    child.on('exit', (code) => {
      clearTimeout(timer);
      if (asked !== null || code === 0) resolve(asked);
      else reject(new Error(`the process that asks scenarios and search ended with ${code}`));
    });
  });
}
