import { PROPERTY_IDS, type PropertyId } from '../../scenarios/scenario.js';

/*
 * What of the state of the playground stands in the fragment of its address, so that it can be passed on.
 */

/** What a visitor is at. */
export const TABS: readonly ['search', 'scenarios', 'map', 'tour'] = ['search', 'scenarios', 'map', 'tour'];

/** One of them. */
export type Tab = (typeof TABS)[number];

/** How the run on the page is looked at. */
export const PANELS: readonly ['events', 'step', 'edit'] = ['events', 'step', 'edit'];

/** One of them. */
export type Panel = (typeof PANELS)[number];

/** The state of the page as texts, none of them looked at yet. */
export interface Address {
  readonly tab: Tab;
  /** The id of a scenario; empty for none. */
  readonly scenario: string;
  /** A schedule, packed; empty for none. */
  readonly run: string;
  /** Properties that the packed schedule is judged by, besides those of every schedule. */
  readonly also: readonly PropertyId[];
  /** Mitigations that are tried. */
  readonly with: readonly string[];
  /** Selected event; -1 for none. */
  readonly event: number;
  readonly panel: Panel;
  /** What is searched, as the flags of `check` say it: `nodes=5`, `faults=crash=1,loss=2%`. */
  readonly search: Readonly<Record<string, string>>;
  /** The axes of the map and its fixed values, as `sweep` takes them. */
  readonly map: readonly string[];
  /** The stop of the tour and the step there, from 0. */
  readonly stop: number;
}

/** Flags of `check` that a search of the page has. */
export const SEARCH_FLAGS: readonly string[] = [
  ...['nodes', 'clients', 'ttl', 'drift-allowance', 'persistence', 'restart-delay', 'votes-wanted', 'profile'],
  ...['faults', 'seed', 'runs'],
];

const START: Address = {
  tab: 'search',
  scenario: '',
  run: '',
  also: [],
  with: [],
  event: -1,
  panel: 'events',
  search: {},
  map: [],
  stop: 0,
};

/** Longer texts are of nobody who means well, characters. */
const LONGEST = 200;

/**
 * Reads a fragment; what makes no sense is as at the start. `#S03` is short for `#scenario=S03`.
 *
 * @param fragment - With or without its `#`.
 */
export function addressOf(fragment: string): Address {
  const text = fragment.replace(/^#/, '');
  if (/^[A-Za-z][\w-]*$/.test(text) && !(TABS as readonly string[]).includes(text))
    return { ...START, tab: 'scenarios', scenario: text };
  const found = new URLSearchParams(text.replace(/^([a-z]+)(?=&|$)/, 'tab=$1'));
  const short = (name: string): string => (found.get(name) ?? '').slice(0, LONGEST);
  const search = SEARCH_FLAGS.flatMap((name) => (found.has(name) ? [[name, short(name)] as const] : []));
  const scenario = short('scenario');
  return {
    tab: TABS.find((it) => it === found.get('tab')) ?? (scenario === '' ? 'search' : 'scenarios'),
    scenario,
    run: found.get('run') ?? '',
    also: PROPERTY_IDS.filter((it) => found.getAll('also').includes(it)),
    with: found.getAll('with').map((it) => it.slice(0, LONGEST)),
    event: wholeFrom(found.get('event'), -1),
    panel: PANELS.find((it) => it === found.get('panel')) ?? START.panel,
    search: Object.fromEntries(search),
    map: found.getAll('map').map((it) => it.slice(0, LONGEST)),
    stop: wholeFrom(found.get('stop'), 0),
  };
}

function wholeFrom(text: string | null, usual: number): number {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : usual;
}

/** The fragment that leads back, with its `#`. */
export function fragmentOf(address: Address): string {
  const made = new URLSearchParams();
  if (address.scenario !== '') made.set('scenario', address.scenario);
  for (const [name, value] of Object.entries(address.search)) made.set(name, value);
  for (const it of address.map) made.append('map', it);
  if (address.stop > 0) made.set('stop', String(address.stop));
  for (const it of address.with) made.append('with', it);
  if (address.event >= 0) made.set('event', String(address.event));
  if (address.panel !== START.panel) made.set('panel', address.panel);
  for (const it of address.also) made.append('also', it);
  if (address.run !== '') made.set('run', address.run);
  const rest = made.toString();
  return `#${address.tab}${rest === '' ? '' : `&${rest}`}`;
}
