import { type Deviation, replaces } from './deviation.js';

/** What is done to keys otherwise. */
export const KEYS: Readonly<Record<string, Deviation>> = {
  'gets-then-deletes': replaces('releaseSteps', 'a release reads the key, and then deletes it', 2),
};
