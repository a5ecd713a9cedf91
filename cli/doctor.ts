import { spawnSync } from 'node:child_process';
import { findFaketime, isRequired, ProvisionError, provision } from '../real/provisioner/index.js';
import { findServerProgram } from '../real/provisioner/processes.js';
import { ANSI, PLAIN } from '../report/index.js';
import { wrap } from '../text/format.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { DoctorFlags } from './flags.js';
import { hasColour, type Io, widthOf, writeJson } from './io.js';

/** Something that may be on a machine. */
interface Finding {
  /** As `LOCKSTEP_REQUIRE` names it. */
  readonly name: string;
  /** What was found; `null` if nothing. */
  readonly found: string | null;
  /** What cannot be done without it. */
  readonly costs: string;
  readonly required: boolean;
}

/** The least version of Node that this runs on. */
const LEAST_NODE = [20, 19] as const;
const PROBE_MS = 5_000;
const BROWSERS = ['chromium', 'chromium-browser', 'google-chrome', 'chrome', 'msedge', 'firefox'];

/** Looks for everything that some verb can make use of. */
export async function doctor(flags: DoctorFlags, io: Io): Promise<ExitCode> {
  const findings = await look(io);
  const missing = findings.filter(({ found, required }) => required && found === null);
  if (flags.json) writeJson(io, 'lockstep.doctor/1', { ok: missing.length === 0, findings });
  else io.stdout.write(doctorText(findings, missing, io));
  return missing.length === 0 ? Exit.ok : Exit.inconclusive;
}

async function look({ env }: Io): Promise<Finding[]> {
  const optional = (name: string, found: string | null, costs: string): Finding => ({
    name,
    found,
    costs,
    required: isRequired(name, env),
  });
  return [
    { name: 'node', found: nodeVersion(), costs: `needs Node ${LEAST_NODE.join('.')} or later`, required: true },
    optional('redis', await redis(env), 'no bench, no replay --real, no tests on real nodes'),
    optional(
      'docker',
      version('docker', ['version', '--format', '{{.Server.Version}}'], env),
      'no tests in containers',
    ),
    optional('faketime', findFaketime() === undefined ? null : 'libfaketime', 'no drifting clocks on real nodes'),
    optional('browser', browser(env), 'replay --open and reports have nothing to be shown by; no tests of pages'),
    optional('spin', version('spin', ['-V'], env), 'the Promela model of the explorer is not run beside it'),
  ];
}

function nodeVersion(): string | null {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const [leastMajor, leastMinor] = LEAST_NODE;
  return major > leastMajor || (major === leastMajor && minor >= leastMinor) ? `Node ${process.versions.node}` : null;
}

/** In the order in which real nodes are looked for. */
async function redis(env: Io['env']): Promise<string | null> {
  const urls = env.LOCKSTEP_REDIS;
  if (urls !== undefined && urls !== '') {
    try {
      const nodes = urls.split(',').length;
      await using given = await provision({ nodes, sources: ['urls'], env });
      return given.description;
    } catch (error) {
      if (error instanceof ProvisionError) return null;
      throw error;
    }
  }
  const program = findServerProgram(env.PATH);
  return program === undefined ? null : version(program, ['--version'], env);
}

function browser(env: Io['env']): string | null {
  for (const name of BROWSERS) {
    const found = version(name, ['--version'], env);
    if (found !== null) return found;
  }
  return null;
}

/** The first line that a program says of itself; `null` if it is not there, or does not answer. */
function version(program: string, args: readonly string[], env: Io['env']): string | null {
  const { status, stdout, error } = spawnSync(program, args, { env: { ...env }, timeout: PROBE_MS, encoding: 'utf8' });
  if (error !== undefined || status !== 0) return null;
  const [line = ''] = stdout.trim().split('\n');
  return line === '' ? program : line.trim();
}

const NAME_WIDTH = 10;

function doctorText(findings: readonly Finding[], missing: readonly Finding[], io: Io): string {
  const paint = hasColour(io) ? ANSI : PLAIN;
  const lines = findings.flatMap(({ name, found, costs, required }) => {
    const mark = found !== null ? paint.good('✓') : required ? paint.bad('✗') : '–';
    const text = found ?? `${required && name !== 'node' ? 'required, and not found' : 'not found'}: ${costs}`;
    return wrap(text, widthOf(io) - NAME_WIDTH - 2).map((line, i) =>
      i === 0 ? `${mark} ${name.padEnd(NAME_WIDTH)}${line}` : `  ${''.padEnd(NAME_WIDTH)}${line}`,
    );
  });
  const names = missing.map(({ name }) => name).join(', ');
  const verdict = missing.length === 0 ? 'Everything that is needed is there.' : `Missing: ${names}.`;
  return `${[...lines, '', verdict].join('\n')}\n`;
}
