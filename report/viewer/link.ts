/** What of the state of the page stands in its address, so that it can be passed on. */
export interface Place {
  /** Sequence number of the selected event; -1 for none. */
  readonly event: number;
  readonly axis: string;
  readonly zoom: number;
  readonly settings: readonly string[];
  readonly filter: string;
  readonly diff: boolean;
  /** Whether equal retries are drawn one by one. */
  readonly all: boolean;
}

/** Where a page begins. */
const START: Place = { event: -1, axis: 'folded', zoom: 1, settings: [], filter: '', diff: false, all: false };

/**
 * Reads the fragment of an address; what is not there or makes no sense is as at the start.
 *
 * @param comparing - Whether the page is about two runs, which it then shows unless told otherwise.
 */
export function placeOf(fragment: string, comparing: boolean): Place {
  const found = new URLSearchParams(fragment.replace(/^#/, ''));
  const number = (name: string, usual: number): number => {
    const value = Number(found.get(name) ?? Number.NaN);
    return Number.isFinite(value) ? value : usual;
  };
  return {
    event: number('event', START.event),
    axis: found.get('axis') ?? START.axis,
    zoom: Math.min(16, Math.max(0.001, number('zoom', START.zoom))),
    settings: found.getAll('with'),
    filter: found.get('filter') ?? '',
    all: found.has('all'),
    diff: found.has('diff') ? found.get('diff') !== '0' : comparing,
  };
}

/** The fragment that leads back to a place. */
export function fragmentOf(place: Place, comparing: boolean): string {
  const made = new URLSearchParams();
  if (place.event >= 0) made.set('event', String(place.event));
  if (place.axis !== START.axis) made.set('axis', place.axis);
  if (place.zoom !== START.zoom) made.set('zoom', String(place.zoom));
  for (const setting of place.settings) made.append('with', setting);
  if (place.filter !== '') made.set('filter', place.filter);
  if (place.all) made.set('all', '1');
  if (place.diff !== comparing) made.set('diff', place.diff ? '1' : '0');
  return `#${made}`;
}
