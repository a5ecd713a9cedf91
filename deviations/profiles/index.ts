import { type Policy, REFERENCE } from '../policy.js';
import { GO_RUST } from './go-rust.js';
import { JAVA_C } from './java-c.js';
import { JAVASCRIPT } from './javascript.js';
import type { KnownClient, Origin } from './known-client.js';
import { PHP } from './php.js';
import { RUBY_PYTHON_PERL_ELIXIR } from './ruby-python-perl-elixir.js';

export type { Origin, Source } from './known-client.js';

const KNOWN: readonly KnownClient[] = [...RUBY_PYTHON_PERL_ELIXIR, ...PHP, ...GO_RUST, ...JAVA_C, ...JAVASCRIPT];

/** The named policies: the reference, and one for each known client. */
export const PROFILES: Readonly<Record<string, Policy>> = Object.freeze(
  Object.fromEntries([REFERENCE, ...KNOWN.map(({ policy }) => policy)].map((policy) => [policy.profile, policy])),
);

/** Where the values of known clients come from, by profile. */
export const ORIGINS: Readonly<Record<string, Origin>> = Object.fromEntries(
  KNOWN.map(({ policy, origin }) => [policy.profile, origin]),
);
