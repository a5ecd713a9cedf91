import { cpus, totalmem } from 'node:os';

/** What a figure was measured on. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly node: string;
  readonly platform: string;
}

/** One line on what a figure was measured on. */
export function machineLine(): string {
  const { cpu, cores, memoryGiB, node, platform } = machine();
  return `${cpu}, ${cores} cores, ${memoryGiB} GiB, Node ${node}, ${platform}`;
}

/** This machine. */
export function machine(): Machine {
  const [first] = cpus();
  return {
    cpu: first?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
  };
}
