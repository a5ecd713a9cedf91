import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { playgroundPage } from '../playground/page.js';
import { CATALOGUE } from './scenes.js';

/** Writes the playground with the whole catalogue into a folder. */
export function playgroundIn(folder: string): { readonly html: string; readonly url: string } {
  const tour = readFileSync(new URL('../../docs/tour.md', import.meta.url), 'utf8');
  const html = playgroundPage({ scenarios: CATALOGUE, tour });
  const path = join(folder, 'index.html');
  writeFileSync(path, html);
  return { html, url: pathToFileURL(path).href };
}
