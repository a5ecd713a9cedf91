import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOMS } from './modules.js';

const isThere = (path: string): boolean => existsSync(new URL(`../${path}`, import.meta.url));

/** What looks like a file, or a folder of this repository, in the code spans of a document. */
function pathsIn(text: string): string[] {
  return [...text.matchAll(/`([\w./-]+)`/g)]
    .map(([, path = '']) => path)
    .filter((path) => /\.(ts|mjs|json|md)$|\w\/$/.test(path));
}

describe.each([...Object.keys(ROOMS), 'test', 'real/lock'])('%s/README.md', (room) => {
  it('is there, and names only files and folders that are there', () => {
    const text = readFileSync(new URL(`../${room}/README.md`, import.meta.url), 'utf8');
    const folders = ['', ...text.matchAll(/^[*|] \[?`([\w/]+\/)`/gm)].map((match) => match[1] ?? '');
    const missing = pathsIn(text).filter(
      (path) => ![...folders.map((folder) => posix.join(room, folder, path)), path].some(isThere),
    );
    expect(missing).toEqual([]);
  });
});

const PAGES = readdirSync(new URL('../docs', import.meta.url)).filter((name) => name.endsWith('.md'));

describe.each(PAGES)('docs/%s', (page) => {
  it('names only files of the sources that are there', () => {
    const text = readFileSync(new URL(`../docs/${page}`, import.meta.url), 'utf8');
    const rooms = Object.keys(ROOMS).map((room) => `${room}/`);
    const named = pathsIn(text).filter((path) => rooms.some((room) => path.startsWith(room)));
    expect(named.filter((path) => !isThere(path))).toEqual([]);
  });
});
