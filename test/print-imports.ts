import { importsPicture } from './imports-picture.js';
import { readModules } from './modules.js';

/** Prints which rooms import which, as the picture in docs/architecture.md. */
const { middle, arrows, possible, mermaid } = importsPicture(readModules(new URL('..', import.meta.url)));
process.stdout.write(`${mermaid}\n\n${middle.length} rooms between ground and top: ${middle.join(', ')}\n`);
process.stdout.write(`${arrows.length} of ${possible} possible arrows between them\n`);
for (const arrow of arrows) process.stdout.write(`  ${arrow}\n`);
