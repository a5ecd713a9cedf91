import { readFileSync } from 'node:fs';

const SHELL = /^npm run -s lockstep -- (.*?)(?:\s+#.*)?$/gm;

/** The commands of a document of the repository, in order, as lists of arguments. */
export function commandsOf(document: string): string[][] {
  const text = readFileSync(new URL(`../${document}`, import.meta.url), 'utf8');
  return [...text.matchAll(SHELL)].map(([, command = '']) => command.trim().split(/\s+/));
}

/** Searches that end by themselves. What ends after a number of runs is tried with fewer of them, beside its document. */
const WHOLE: readonly string[] = ['sweep', 'explore'];

/** Such searches of the first documents that people read, each once: those of the safety map come first. */
export function wholeSearches(): string[] {
  const commands = ['docs/safety-map.md', 'docs/tour.md', 'README.md'].flatMap(commandsOf);
  return [...new Set(commands.filter(([verb = '']) => WHOLE.includes(verb)).map((argv) => argv.join(' ')))];
}
