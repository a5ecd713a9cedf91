import '../runtime/installed.js';
import { KILLED, STALLS, setOn, stallOf } from './stalls.js';

/*
 * `npm run -s bench:stalls`: how long locks with default options wait for one of five nodes whose process was killed, in the
 * simulated world and on real servers. Exit code 1 where they differ by more than a hundredth.
 */

const NODE_REDIS_MS = 5_002;
const MOST = 0.01;

const lines: string[] = [];
let worst = 0;

function compare(what: string, simulatedMs: number | null, realMs: number): void {
  const share = simulatedMs === null ? Number.POSITIVE_INFINITY : Math.abs(simulatedMs - realMs) / realMs;
  worst = Math.max(worst, share);
  const shown = simulatedMs === null ? 'for ever' : `${Math.round(simulatedMs)} ms`;
  lines.push(`${what.padEnd(40)} ${shown.padStart(10)}   real ${realMs} ms   ${(100 * share).toFixed(2)} % apart`);
}

for (const { realMs, ...stall } of STALLS)
  compare(`${stall.call} of ${stall.library} above ${stall.module}`, await stallOf(stall, KILLED), realMs);
const [error, ms] = (await setOn('redis'))?.split(' ') ?? [];
compare(`SET by node-redis 6 (${error ?? 'nothing'})`, ms === undefined ? null : Number(ms), NODE_REDIS_MS);
const never = await setOn('redis5');
lines.push(`${'SET by node-redis 5'.padEnd(40)} ${(never ?? 'for ever').padStart(10)}   real: no end in 200 s`);
process.stdout.write(`${lines.join('\n')}\n`);
if (worst > MOST || never !== null) process.exitCode = 1;
