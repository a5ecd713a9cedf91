import type { CauseName } from './model.js';

/** What was published on how often something happens, and how long it lasts. */
export interface Typical {
  readonly cause: CauseName;
  /** Least and most events a year of one node or client; `null`: nobody was found who says. */
  readonly perYear: readonly [number, number] | null;
  /** How long it lasts or how far it goes, as it is written in a description. */
  readonly size: string;
  /** What the source says, and where. */
  readonly source: string;
}

const DEAN =
  'Jeff Dean, Google I/O 2008, on clusters of 1,800 servers (datacenterknowledge.com, 2008-05-30; e-mats.org, 2008-04)';

/**
 * Ranges from what others measured, years ago and elsewhere. They are no substitute for one's own logs, and are only used where a
 * description says `typical`; then both ends are estimated.
 */
export const TYPICAL: readonly Typical[] = [
  {
    cause: 'crash',
    perYear: [0.5, 2],
    size: '1m..24h',
    source: `1,000 machine failures in the first year, and each machine crashes at least twice: ${DEAN}; jjinux.com, 2015-08, after his talk at LADIS 2009. Mean repair takes from less than an hour to more than a day: Schroeder and Gibson, DSN 2006`,
  },
  {
    cause: 'powerLoss',
    perYear: [0.3, 0.6],
    size: '6h',
    source: `one power distribution unit a year, 500 to 1,000 servers for about 6 hours: ${DEAN}`,
  },
  {
    cause: 'partition',
    perYear: [0.4, 5],
    size: '30m..6h',
    source: `20 rack failures a year, 40 to 80 servers for 1 to 6 hours, and 4 maintenances with connectivity losses of 30 minutes: ${DEAN}`,
  },
  {
    cause: 'pause',
    perYear: [365_000, 11_600_000],
    size: '1ms..120ms',
    source:
      'from 1,000 a day to 22 a minute, 99 % of them below 118 ms: a Java service shown by GCPlot (docs.gcplot.com). Longer ones are rarer, and last up to minutes (Kleppmann 2016): look into your own logs',
  },
  {
    cause: 'nodeStep',
    perYear: null,
    size: '128ms..1h',
    source:
      'ntpd steps a clock that is more than 128 ms off, unless it runs with -x (its manual); how often, depends on the host',
  },
  {
    cause: 'vmPause',
    perYear: null,
    size: '100ms..9s',
    source:
      'downtime that is allowed for a live migration: 100 ms in an example of IBM (virsh migrate-setmaxdowntime), at most 9 s with VirtFusion',
  },
  {
    cause: 'lateWrite',
    perYear: null,
    size: '1s..90s',
    source: 'GitHub saw packets that came 90 s late (Kleppmann 2016)',
  },
];

/** What was published on a cause, with how often it happens; `undefined` where nothing is. */
export function typicalOf(cause: CauseName): (Typical & { readonly perYear: readonly [number, number] }) | undefined {
  const found = TYPICAL.find((it) => it.cause === cause);
  return found === undefined || found.perYear === null ? undefined : { ...found, perYear: found.perYear };
}
