import { type Policy, REFERENCE } from '../policy.js';
import { GO_RUST, GO_RUST_ORIGINS } from './go-rust.js';
import { JAVA_C, JAVA_C_ORIGINS } from './java-c.js';
import { JAVASCRIPT, JAVASCRIPT_ORIGINS } from './javascript.js';
import type { Origin } from './origin.js';
import { PHP, PHP_ORIGINS } from './php.js';
import { RUBY_PYTHON_PERL_ELIXIR, RUBY_PYTHON_PERL_ELIXIR_ORIGINS } from './ruby-python-perl-elixir.js';

export type { Origin } from './origin.js';

const KNOWN = [...RUBY_PYTHON_PERL_ELIXIR, ...PHP, ...GO_RUST, ...JAVA_C, ...JAVASCRIPT];

/** The named policies: the reference, and one for each known client. Where their values come from: {@link ORIGINS}. */
export const PROFILES: Readonly<Record<string, Policy>> = Object.freeze(
  Object.fromEntries([REFERENCE, ...KNOWN].map((policy) => [policy.profile, policy])),
);

/** Where the values of known clients come from, by profile. Bundles that have no use for it, as that of the page, leave it out. */
export const ORIGINS: Readonly<Record<string, Origin>> = /* @__PURE__ */ Object.assign(
  {},
  RUBY_PYTHON_PERL_ELIXIR_ORIGINS,
  PHP_ORIGINS,
  GO_RUST_ORIGINS,
  JAVA_C_ORIGINS,
  JAVASCRIPT_ORIGINS,
);
