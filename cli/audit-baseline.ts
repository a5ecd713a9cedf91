import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { z } from 'zod';
import type { Finding } from '../audit/index.js';
import { exactly } from '../scenarios/exactly.js';
import { list, oneOf, record, text } from '../scenarios/grammar-parts.js';
import { InputError } from '../scenarios/input-error.js';
import { layOut } from '../scenarios/json-layout.js';
import { readAs } from '../scenarios/read-as.js';
import { parseTextAs } from '../scenarios/read-schedule.js';
import { pathFrom } from './audit-files.js';
import { readText } from './read-text.js';
import { writeNamed } from './write-file.js';

/** What a finding is known by: neither its line, nor its seed. */
export interface Accepted {
  /** From the folder of the baseline. */
  readonly file: string;
  readonly property: string;
  /** The one name of a finding, as text, `--json` and SARIF have it: `blind-release`. */
  readonly id: string;
}

/** What of a finding it is known by. */
type Known = Pick<Finding, 'id' | 'property'>;

interface BaselineFile {
  readonly schema: 'lockstep.baseline/2';
  readonly findings: readonly Accepted[];
}

const grammar: z.ZodType<BaselineFile> = exactly<BaselineFile>()(
  record('a baseline', {
    schema: oneOf('lockstep.baseline/2'),
    findings: list(
      record('an accepted finding', {
        file: text('the path of a file, from the folder of the baseline'),
        property: text('the name of a property'),
        id: text('the id of a finding'),
      }),
      'a list of accepted findings',
    ),
  }),
);

/** A baseline of the version before, in which the id of a finding was called its cause, as one of today. */
function ofToday(value: unknown): unknown {
  const { schema, findings } = Object(value);
  if (schema !== 'lockstep.baseline/1' || !Array.isArray(findings)) return value;
  const renamed = findings.map((it) => {
    const { cause, ...rest } = Object(it);
    return { ...rest, id: cause };
  });
  return { schema: 'lockstep.baseline/2', findings: renamed };
}

/** Findings that a team has accepted, in a file that is committed. */
export class Baseline {
  private readonly path: string;
  private readonly cwd: string;
  private findings: readonly Accepted[];

  private constructor(path: string, cwd: string, findings: readonly Accepted[]) {
    this.path = path;
    this.cwd = cwd;
    this.findings = findings;
  }

  /**
   * @param isWritten - It may not be there yet.
   * @throws InputError if it cannot be read, or is no baseline.
   */
  static read(path: string, cwd: string, isWritten: boolean): Baseline {
    if (isWritten && !existsSync(resolve(cwd, path))) return new Baseline(path, cwd, []);
    const content = readText(path, cwd, 'a baseline, which --accept writes', 'a file in it');
    const { findings } = parseTextAs(content, path, (value) => readAs(grammar, ofToday(value)));
    return new Baseline(path, cwd, findings);
  }

  private keyOf(file: string, { property, id }: Known): Accepted {
    return { file: pathFrom(dirname(resolve(this.cwd, this.path)), resolve(this.cwd, file)), property, id };
  }

  /** @param file - From the working directory. */
  has(file: string, finding: Known): boolean {
    const key = this.keyOf(file, finding);
    return this.findings.some((it) => isSame(it, key));
  }

  /** What is accepted of files that were audited, and was not found in them any more. */
  gone(audited: ReadonlyMap<string, readonly Known[]>): Accepted[] {
    const found = [...audited].flatMap(([file, findings]) => findings.map((it) => this.keyOf(file, it)));
    const files = this.filesOf(audited);
    return this.findings.filter((it) => files.includes(it.file) && !found.some((key) => isSame(it, key)));
  }

  /** Writes what was found down as accepted. What it has of files that were not audited stays. @returns Its path. */
  accept(audited: ReadonlyMap<string, readonly Known[]>): string {
    const files = this.filesOf(audited);
    const found = [...audited].flatMap(([file, findings]) => findings.map((it) => this.keyOf(file, it)));
    const all = [...this.findings.filter(({ file }) => !files.includes(file)), ...found];
    this.findings = all.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
    const content = layOut({ schema: 'lockstep.baseline/2', findings: this.findings });
    return writeNamed('--baseline', this.path, content, this.cwd);
  }

  private filesOf(audited: ReadonlyMap<string, unknown>): string[] {
    const folder = dirname(resolve(this.cwd, this.path));
    return [...audited.keys()].map((file) => pathFrom(folder, resolve(this.cwd, file)));
  }
}

function isSame(a: Accepted, b: Accepted): boolean {
  return a.file === b.file && a.property === b.property && a.id === b.id;
}

/** @throws InputError for flags of a baseline that say nothing together. */
export function baselineOf(
  { baseline, accept }: { readonly baseline?: string; readonly accept?: boolean },
  cwd: string,
): Baseline | null {
  if (baseline !== undefined) return Baseline.read(baseline, cwd, accept ?? false);
  if (accept) throw new InputError('--accept: say into which file, as in --baseline lockstep-baseline.json');
  return null;
}
