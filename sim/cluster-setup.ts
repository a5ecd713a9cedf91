import type { Cluster } from '../scenarios/index.js';

/** Fields that a schedule may leave out. */
type Optional = 'fsync' | 'dumps' | 'answers' | 'expiryAtLoad' | 'scripts';

/**
 * The cluster of a schedule; what that leaves out may be there without a value, because set-ups that all have the same
 * fields are of one shape, with which the engine is fastest.
 */
export type ClusterSetup = Omit<Cluster, Optional> & { readonly [K in Optional]?: Cluster[K] | undefined };
