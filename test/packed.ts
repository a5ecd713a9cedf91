import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { checkPackage, createPackageFromTarballData, type Problem } from '@arethetypeswrong/core';
import { type Message, publint } from 'publint';

const exec = promisify(execFile);

/** What `npm pack --json` says of a tarball. */
export interface Packed {
  readonly filename: string;
  /** Bytes. */
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

/** Packs what was built last. */
export async function packInto(destination: string, packageFolder: string): Promise<Packed> {
  const { stdout } = await exec('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', destination], {
    cwd: packageFolder,
  });
  const [packed] = JSON.parse(stdout) as [Packed];
  return packed;
}

/** What publint and are-the-types-wrong find in a tarball. */
export async function findings(path: string): Promise<{ messages: readonly Message[]; problems: readonly Problem[] }> {
  const bytes = new Uint8Array(readFileSync(path));
  const { messages } = await publint({ pack: { tarball: bytes.slice().buffer }, strict: true });
  const analysis = await checkPackage(createPackageFromTarballData(bytes));
  if (!('problems' in analysis)) throw new Error('there are no types');
  return { messages, problems: analysis.problems };
}
