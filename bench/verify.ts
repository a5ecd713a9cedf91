import { verifyHistory } from '../properties/history/verify.js';
import { median } from '../real/bench/statistics.js';
import type { HistoryLine } from '../scenarios/history-line.js';
import { machineLine } from './machine.js';

/** Locks in the history; each is acquired and released, which makes two operations of it and four lines. */
const LOCKS = 50_000;
const ROUNDS = 5;

const text = Array.from({ length: LOCKS }, (_, i) => history(i)).flat();
const tookMs: number[] = [];
for (let round = 0; round < ROUNDS; round++) {
  const began = performance.now();
  verifyHistory(text);
  tookMs.push(performance.now() - began);
}
process.stdout.write(
  `${2 * LOCKS} operations (${text.length} lines) judged in ${Math.round(median(tookMs))} ms, ` +
    `median of ${ROUNDS}\n${machineLine()}\n`,
);

/** One lock after the other on seven resources, none overlapping. */
function history(i: number): string[] {
  const start = i * 1_000;
  const at = (atUs: number): { readonly lock: string; readonly atUs: number } => ({ lock: `l${i}`, atUs });
  const lines: HistoryLine[] = [
    { type: 'acquire', client: 'c1', resources: [`r${i % 7}`], ttlMs: 10, ...at(start) },
    { type: 'acquired', validUs: 9_000, ...at(start + 10) },
    { type: 'release', ...at(start + 900) },
    { type: 'released', ...at(start + 950) },
  ];
  return lines.map((line) => JSON.stringify(line));
}
