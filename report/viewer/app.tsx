import type { JSX, RefObject } from 'preact';
import { type StateUpdater, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { describeEvent } from '../event-words.js';
import type { ComparedRun, Payload } from '../payload.js';
import { layout } from '../picture/layout.js';
import { Bar, nextAxis } from './bar.js';
import { DiffView, type Side } from './diff-view.js';
import { About, Header } from './header.js';
import { Inspector } from './inspector.js';
import { type Action, actionOf, Help, keysFor } from './keys.js';
import { Legend } from './legend.js';
import { fragmentOf, type Place, placeOf } from './link.js';
import { beginning, indexOf, isMove, type Move, moved, type Opened, rerun } from './model.js';
import { PictureView } from './picture-view.js';
import { Settings } from './settings.js';
import type { Engine } from './start-engine.js';
import { EventTable, Filter } from './table.js';
import { useAddress, useWidth } from './use-address.js';
import { type Play, usePlay } from './use-play.js';
import { useRuns } from './use-runs.js';
import { WindowBar } from './window-bar.js';
import { beyond, useWindows, type Windows } from './windows.js';

/** The whole page. Its state is its address. */
export function App({ payload, first }: { readonly payload: Payload; readonly first: Opened }): JSX.Element {
  const other = payload.source.kind === 'schedule' ? payload.source.other : null;
  const comparing = other !== null;
  const [place, setPlace] = useAddress(
    (fragment) => placeOf(fragment, comparing),
    (state: Place) => fragmentOf(state, comparing),
  );
  const width = useWidth();
  const field = useRef<HTMLInputElement>(null);
  const windows = useWindows(payload, place.event);
  const { engine, written, opened, beside } = useRuns(payload, first, place.settings, windows, other);
  const { scene } = opened;
  const at = selectedIn(opened, place);
  const event = scene.events[at];
  const shown = useMemo(() => filtered(opened, place.filter), [opened, place.filter]);
  const { axis, zoom, all } = place;
  const keys = useMemo(() => keysFor(payload.source), [payload]);
  // Drawn for the run as it was written.
  const isWritten = opened === written;
  const chances = isWritten ? payload.likelihood : null;
  const prevented = isWritten && payload.source.kind === 'schedule' ? (payload.source.prevented ?? NONE) : NONE;
  const picture = useMemo(
    () => layout(scene, { axis, zoom, width, heading: false, likelihood: chances, prevented, allRetries: all }),
    [scene, axis, zoom, width, chances, prevented, all],
  );
  const go = (change: Partial<Place>): void => setPlace((now) => ({ ...now, ...change }));
  const pick = (seq: number): void => go({ event: seq });
  const acts = useActions({ opened, windows, shown, at, place, setPlace, field });
  const { act, help, play, closed, on } = acts;
  useKeys(keys, act);
  const { speed, setSpeed: onSpeed } = play;
  const { folded } = picture;
  const about = { keys, place, clients: scene.clients, pressed: on, folded, speed, onSpeed };
  const sides = sidesOf(opened, written, beside, other);
  return (
    <main>
      <div class="top">
        <Header payload={payload} opened={opened} written={written} />
        <PictureView picture={picture} scene={scene} selected={event ?? null} onPick={pick} closed={closed} />
      </div>
      <Legend picture={picture} />
      <Bar {...about} onAction={act} onGo={go} />
      {help ? <Help keys={keys} onAction={act} /> : null}
      <Changes payload={payload} engine={engine} settings={place.settings} onGo={go} />
      {windows === null ? null : <WindowBar windows={windows} event={place.event} onGo={pick} />}
      {place.diff ? <DiffView {...sides} view={{ axis, zoom, width }} onPick={pick} /> : null}
      <div class="below">
        <Inspector opened={opened} event={event} onPick={pick} />
        <EventTable scene={scene} shown={shown} at={at} onPick={pick}>
          <Filter field={field} text={place.filter} onText={(filter) => go({ filter })} />
        </EventTable>
      </div>
      <About payload={payload} opened={opened} written={written} />
      <p class="spoken" role="status">
        {event === undefined ? '' : `${event.process} ${describeEvent(event, scene)}`}
      </p>
    </main>
  );
}

const NONE: readonly string[] = [];

/** What keys and buttons do. */
function useActions(page: {
  readonly opened: Opened;
  readonly windows: Windows | null;
  readonly shown: readonly number[];
  readonly at: number;
  readonly place: Place;
  readonly setPlace: (change: StateUpdater<Place>) => void;
  readonly field: RefObject<HTMLInputElement | null>;
}): {
  readonly act: (action: Action) => void;
  readonly help: boolean;
  readonly play: Play;
  /** Counts how often something was closed. */
  readonly closed: number;
  /** What is switched on. */
  readonly on: ReadonlySet<Action>;
} {
  const { opened, windows, shown, at, place, setPlace, field } = page;
  const { scene } = opened;
  const { axis, zoom, all, diff } = place;
  const [help, setHelp] = useState(false);
  const [closed, setClosed] = useState(0);
  const go = (change: Partial<Place>): void => setPlace((now) => ({ ...now, ...change }));
  const step = (action: Move): void =>
    // From where the page is by then: keys may come faster than it is painted.
    setPlace((now) => {
      const from = selectedIn(opened, now);
      const far = windows === null ? null : beyond(windows, scene.events[from]?.seq ?? 0, action);
      return { ...now, event: far ?? scene.events[moved(opened, shown, from, action)]?.seq ?? now.event };
    });
  const play = usePlay(at === shown.at(-1), () => step('next'));
  const close = (): void => {
    setClosed((now) => now + 1);
    play.stop();
    if (help) setHelp(false);
    else if (diff) go({ diff: false });
  };
  const switches: Readonly<Record<Exclude<Action, Move>, () => void>> = {
    play: play.toggle,
    axis: () => go({ axis: nextAxis(axis, scene.clients) }),
    diff: () => go({ diff: !diff }),
    retries: () => go({ all: !all }),
    help: () => setHelp(!help),
    wider: () => go({ zoom: Math.min(16, zoom * 1.5) }),
    narrower: () => go({ zoom: Math.max(0.001, zoom / 1.5) }),
    filter: () => field.current?.focus(),
    close,
  };
  const act = (action: Action): void => {
    if (isMove(action)) step(action);
    else switches[action]();
  };
  const states: readonly (readonly [Action, boolean])[] = [
    ['diff', diff],
    ['help', help],
    ['play', play.isOn],
  ];
  return { act, help, play, closed, on: new Set(states.flatMap(([action, isOn]) => (isOn ? [action] : []))) };
}

/** Does what a key stands for. */
function useKeys(keys: ReturnType<typeof keysFor>, act: (action: Action) => void): void {
  useEffect(() => {
    const onKey = (it: KeyboardEvent): void => {
      const action = actionOf(it, keys);
      if (action === undefined) return;
      it.preventDefault();
      act(action);
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  });
}

/** Mitigations and parameters to try; nothing where a recording cannot be run again. */
function Changes(props: {
  readonly payload: Payload;
  readonly engine: Engine | null;
  readonly settings: readonly string[];
  readonly onGo: (change: Partial<Place>) => void;
}): JSX.Element | null {
  const { payload, engine, settings, onGo } = props;
  if (payload.source.kind !== 'schedule') return null;
  const change = (wanted: readonly string[]): string => {
    if (engine === null) return 'a moment: the engine is starting';
    try {
      rerun(engine, payload, wanted);
      onGo({ settings: wanted });
      return '';
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  };
  const { mitigations } = payload.source;
  return <Settings offered={mitigations} known={engine?.MITIGATIONS ?? []} settings={settings} onChange={change} />;
}

/** The run that this one is compared with: another schedule, or the same as it was written. */
function sidesOf(
  opened: Opened,
  written: Opened,
  beside: Opened | null,
  other: ComparedRun | null,
): { readonly a: Side; readonly b: Side; readonly mine: 'a' | 'b' } {
  const { settings } = opened;
  const having = settings.length === 0 ? '' : `with ${settings.join(' and ')}`;
  if (beside !== null && other !== null) {
    const [name, its] = other.names;
    const mine = having === '' ? name : `${name} ${having}`;
    return { a: { opened, name: mine }, b: { opened: beside, name: its }, mine: 'a' };
  }
  return { a: { opened: written, name: 'as written' }, b: { opened, name: having || 'now' }, mine: 'b' };
}

/** Opens at the first violation if the address names no event. */
function selectedIn(opened: Opened, place: Place): number {
  return place.event < 0 ? beginning(opened) : indexOf(opened.scene, place.event);
}

/** Places of the events in which all words of the filter occur. */
function filtered({ scene }: Opened, filter: string): number[] {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return scene.events.map((_, index) => index);
  return scene.events.flatMap((event, index) => {
    const text = `${event.process} ${event.kind} ${describeEvent(event, scene)}`.toLowerCase();
    return wanted.every((word) => text.includes(word)) ? [index] : [];
  });
}
