import { readFileSync } from 'node:fs';

/** The version of this package. */
export function version(): string {
  // From the source or from the build in `dist/cli`.
  for (const place of ['../package.json', '../../package.json']) {
    try {
      const { name, version } = JSON.parse(readFileSync(new URL(place, import.meta.url), 'utf8'));
      if (name === 'lockstep') return String(version);
    } catch {
      // The other place.
    }
  }
  return 'unknown';
}
