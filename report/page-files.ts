import { existsSync, readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';

/** What the build made for pages, by name. */
export type PageFile = 'viewer.js' | 'viewer.css' | 'engine.js' | 'playground.js' | 'playground.css';

let read: Readonly<Record<PageFile, string>> | undefined;

/**
 * A file that runs in pages, from the build in `dist/report`, whether it is asked for from there or from the source.
 *
 * @throws {@link Error} if it has not been built.
 */
export function pageFile(name: PageFile): string {
  read ??= readAll();
  return read[name];
}

function readAll(): Readonly<Record<PageFile, string>> {
  const places = ['./pages.br', '../dist/report/pages.br'].map((place) => new URL(place, import.meta.url));
  const found = places.find((place) => existsSync(place));
  if (found === undefined) throw new Error('what runs in pages has not been built; run: npm run build');
  return JSON.parse(brotliDecompressSync(readFileSync(found)).toString());
}
