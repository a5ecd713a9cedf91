import { readdirSync, readFileSync } from 'node:fs';

const TOP = new URL('..', import.meta.url);

/** A fenced block of a document. */
export interface Block {
  readonly document: string;
  readonly language: string;
  readonly text: string;
}

/** What people read: the documents of the repository, but for what is made from the code. */
export function documents(): string[] {
  const found: string[] = ['README.md'];
  const walk = (folder: string): void => {
    for (const entry of readdirSync(new URL(folder, TOP), { withFileTypes: true })) {
      if (entry.isDirectory() && entry.name !== 'api') walk(`${folder}${entry.name}/`);
      else if (/\.(md|yml)$/.test(entry.name)) found.push(folder + entry.name);
    }
  };
  walk('docs/');
  walk('examples/');
  return found.filter((path) => path !== 'docs/cli.md').sort();
}

/** The fenced blocks of a document, in order; a file of YAML is one of its own. */
export function blocksOf(document: string): Block[] {
  const text = readFileSync(new URL(document, TOP), 'utf8');
  if (document.endsWith('.yml')) return [{ document, language: 'yaml', text }];
  return [...text.matchAll(/^```(\w*)\n(.*?)^```/gms)].map(([, language = '', body = '']) => {
    return { document, language, text: body };
  });
}

/** A command of this project in a document, and what its line says of its end. */
export interface Told {
  readonly argv: readonly string[];
  /** `violated`, `safe`, `passed`, … where the line has it. */
  readonly verdict: string | null;
}

const COMMAND =
  /^\s*(?:- run: |entry: )?(?:npm run -s lockstep --|npx lockstep|lockstep) (.*?)(?: > \S+)?(?:\s+\|\| .*|\s+#\s*(?:(\w+):)?.*)?$/gm;

/** The commands of a block; quotes as the shell has them. */
export function commandsIn({ text }: Block): Told[] {
  return [...text.matchAll(COMMAND)].map(([, words = '', verdict]) => ({
    argv: [...words.matchAll(/"([^"]*)"|\$\{\{.*?\}\}\S*|(?:[^\s$]|\$\{\{.*?\}\})+|\S+/g)].map(
      ([word, quoted]) => quoted ?? word,
    ),
    verdict: verdict ?? null,
  }));
}
