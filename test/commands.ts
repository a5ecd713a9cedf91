import { readFileSync } from 'node:fs';

const SHELL = /^npm run -s lockstep -- (.*?)(?:\s+#.*)?$/gm;

/** The commands of a document of the repository, in order, as lists of arguments. */
export function commandsOf(document: string): string[][] {
  const text = readFileSync(new URL(`../${document}`, import.meta.url), 'utf8');
  return [...text.matchAll(SHELL)].map(([, command = '']) => command.trim().split(/\s+/));
}
