import { formatBench, runBench } from '../real/bench/index.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { BenchFlags } from './flags.js';
import { type Io, writeJson } from './io.js';
import { ProgressLine } from './progress.js';

/** Measures the lock on real nodes. */
export async function bench(flags: BenchFlags, io: Io): Promise<ExitCode> {
  const line = new ProgressLine(io);
  const { nodes, rounds, minRatio } = flags;
  const result = await runBench({
    ...(nodes === undefined ? {} : { nodes }),
    ...(rounds === undefined ? {} : { rounds }),
    signal: io.signal,
    onProgress: ({ done, total, shape, health }) => line.show(`${done} of ${total} measured: ${shape}, ${health}`),
  });
  line.end();
  if (flags.json) writeJson(io, result.schema, result);
  else io.stdout.write(`${formatBench(result)}\n`);
  if (result.interrupted) return Exit.interrupted;
  const slow = result.rows.filter(
    (row) => row.subject === 'lockstep' && row.health === 'healthy' && row.ratioToFloor < (minRatio ?? 0),
  );
  for (const { shape, ratioToFloor } of slow) {
    io.stderr.write(`lockstep: ${shape}: ${ratioToFloor} of the floor is less than the ${minRatio} asked for\n`);
  }
  return slow.length === 0 ? Exit.ok : Exit.tooSlow;
}
