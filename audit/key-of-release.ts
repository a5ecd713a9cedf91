import type { Defect } from './defect.js';
import type { Subject } from './subject.js';

/** The prefix of all keys of a client has the release of the program in it: `keyPrefix: 'api:' + process.env.APP_RELEASE`. */
const PREFIX_OF_RELEASE =
  /\bkeyPrefix\s*:[^,;\n]*\b(?:process\.env\.|env\.|config\.)?(\w*(?:RELEASE|VERSION|BUILD|COMMIT|GIT_SHA|DEPLOY(?:MENT)?)(?:_\w+)?)\b/;

/** Finds a lock whose key is another one in each release of its program. */
export function keyOfRelease({ bench }: Subject): Defect | null {
  const [, name] = bench.program.texts.map((it) => PREFIX_OF_RELEASE.exec(it)).find((it) => it !== null) ?? [];
  if (name === undefined) return null;
  return {
    id: 'key-of-release',
    sentence: `the prefix of its keys (keyPrefix) has the release of the program in it (${name}): while a new version is rolled out, processes of both versions run, lock different keys, and both work`,
    fix: 'leave the release out of the keys of locks: give the locks a client with a prefix that stays',
    brings: [],
    property: 'mutual-exclusion',
    isShown: true,
  };
}
