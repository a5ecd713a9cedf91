import { drawBench, formatBench, runBench } from '../real/bench/index.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { BenchFlags } from './flags.js';
import { type Io, say, writeJson } from './io.js';
import { ProgressLine } from './progress.js';
import { writeNamed } from './write-file.js';

/** Measures the lock on real nodes. */
export async function bench(flags: BenchFlags, io: Io): Promise<ExitCode> {
  const line = new ProgressLine(io);
  const { json, require, picture, clients = [], ...options } = flags;
  const started = Date.now();
  const result = await runBench({
    ...options,
    clients,
    signal: io.signal,
    onProgress: ({ done, total, nodes, shape, health }) => {
      const leftS = Math.round(((Date.now() - started) / done / 1000) * (total - done));
      line.show(`${done} of ${total} measured: ${nodes} nodes, ${shape}, ${health}; about ${leftS} s left`);
    },
  });
  line.end();
  if (json) writeJson(io, result.schema, result);
  else io.stdout.write(`${formatBench(result)}\n`);
  if (picture !== undefined) writeNamed('--picture', picture, `${drawBench(result)}\n`, io.cwd);
  if (result.interrupted) return Exit.interrupted;
  if (!require) return Exit.ok;
  if (result.thresholds.length === 0) {
    say(io, '--require: nothing was measured that has a threshold; five nodes have');
    return Exit.inconclusive;
  }
  const missed = result.thresholds.filter(({ met }) => !met);
  for (const { what, wanted, found } of missed) {
    say(io, `threshold missed: ${what}: ${found}, wanted ${wanted}`);
  }
  return missed.length === 0 ? Exit.ok : Exit.tooSlow;
}
