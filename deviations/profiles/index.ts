import { type Policy, REFERENCE } from '../policy.js';
import { GO_RUST } from './go-rust.js';
import { JAVA_C } from './java-c.js';
import { JAVASCRIPT } from './javascript.js';
import { PHP } from './php.js';
import { RUBY_PYTHON_PERL_ELIXIR } from './ruby-python-perl-elixir.js';

export { ORIGINS, type Origin, type Source } from './origins.js';

const KNOWN = [...RUBY_PYTHON_PERL_ELIXIR, ...PHP, ...GO_RUST, ...JAVA_C, ...JAVASCRIPT];

/** The named policies: the reference, and one for each known client. Where their values come from: `ORIGINS`. */
export const PROFILES: Readonly<Record<string, Policy>> = Object.freeze(
  Object.fromEntries([REFERENCE, ...KNOWN].map((policy) => [policy.profile, policy])),
);
