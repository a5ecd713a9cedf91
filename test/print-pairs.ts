import { writeFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { layOut } from '../scenarios/json-layout.js';
import { pairsPage } from './pairs-page.js';

/** Writes docs/pairs.md and the data behind it from what `libraries --pairs --json` prints. */
const report = JSON.parse(await text(process.stdin));
const page = pairsPage(report);
writeFileSync(new URL('pairs.json', import.meta.url), layOut(report));
writeFileSync(new URL('../docs/pairs.md', import.meta.url), page);
