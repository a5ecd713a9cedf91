/** What can be asked for. */
export const UNKNOWNS = ['allowance', 'restart-delay', 'votes', 'guard', 'ttl'] as const;

/** See {@link UNKNOWNS}. */
export type Unknown = (typeof UNKNOWNS)[number];
