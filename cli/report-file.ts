import { spawn } from 'node:child_process';
import { resolve } from 'node:path';

/** Where reports go that nobody named a place for, below the working directory. */
export const REPORTS = '.lockstep/reports';

/** Where the report of a run goes: beside its file if it is one, where a person said, else among the reports. */
export function reportPath(name: string): string {
  if (name.endsWith('.html')) return name;
  return name.endsWith('.json') ? name.replace(/\.json$/, '.html') : `${REPORTS}/${name}.html`;
}

/** The command that opens a file in whatever shows such files. */
function opener(platform: NodeJS.Platform): readonly [command: string, ...args: string[]] {
  if (platform === 'darwin') return ['open'];
  return platform === 'win32' ? ['cmd', '/c', 'start', ''] : ['xdg-open'];
}

/** Opens a file for the person; that there is nothing to open it with is no error, since its path was printed. */
export function openFile(path: string, cwd: string): void {
  const [command, ...args] = opener(process.platform);
  const child = spawn(command, [...args, resolve(cwd, path)], { detached: true, stdio: 'ignore' });
  child.on('error', () => {});
  child.unref();
}
