import { existsSync, mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type Provision, provision } from '../provisioner/index.js';

/** A kind of server that is here, and how to get one. */
export interface ServerHere {
  readonly name: string;
  start(): Promise<Provision>;
}

/** Every kind of Redis-compatible server on the PATH, not only the first; or whatever else there is. */
export function serversHere(): ServerHere[] {
  const found = ['redis-server', 'valkey-server'].flatMap((name): ServerHere[] => {
    const folders = (process.env.PATH ?? '').split(delimiter);
    const program = folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
    return program === undefined ? [] : [{ name, start: () => startOnly(name, program) }];
  });
  return process.env.LOCKSTEP_REDIS || found.length === 0
    ? [{ name: 'a real node', start: () => provision({ nodes: 1 }) }]
    : found;
}

async function startOnly(name: string, program: string): Promise<Provision> {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-server-'));
  symlinkSync(program, join(folder, name));
  return provision({ nodes: 1, sources: ['processes'], env: { PATH: folder } });
}
