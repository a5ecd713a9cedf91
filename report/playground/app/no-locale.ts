/*
 * What zod would say for itself. Its grammar has words of its own for everything, so that none of this is ever read.
 */

/** The shape of a locale of zod. */
export function en(): { readonly localeError: () => string } {
  return { localeError: () => 'it is not right' };
}
