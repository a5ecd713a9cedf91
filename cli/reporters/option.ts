import type { Option } from 'commander';
import { InputError } from '../../scenarios/input-error.js';
import { option } from '../option.js';
import { word } from '../values.js';
import { REPORTERS, type Reporter } from './outcome.js';

/** The flag that chooses a reporter. */
export function reporterOption(): Option {
  return option('--reporter <name>', `${REPORTERS.join(', ')} (default)`, word(...REPORTERS));
}

/** The reporter that is asked for; `--json` is short for one of them. */
export function reporterOf(flags: { readonly json?: boolean; readonly reporter?: Reporter }): Reporter {
  const { json, reporter } = flags;
  if (json && reporter !== undefined && reporter !== 'json') {
    throw new InputError(`--json: it is another reporter than ${reporter}; leave out one of them`);
  }
  return json ? 'json' : (reporter ?? 'default');
}
