import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { SAFETY } from '../../../properties/property-lists.js';
import type { Schedule } from '../../../scenarios/index.js';
import { useAddress } from '../../viewer/use-address.js';
import { type Address, addressOf, fragmentOf, type Tab } from '../address.js';
import type { Stored } from '../catalogue.js';
import { DEMONSTRATION_TEXTS, type SearchTexts } from '../settings.js';
import type { TourStep, TourStop } from '../tour.js';
import { MapForm } from './map-form.js';
import { MapView } from './map-view.js';
import { ResultView } from './result-view.js';
import type { Shown } from './run.js';
import { ScenarioList } from './scenario-list.js';
import { SearchForm } from './search-form.js';
import { Status } from './status.js';
import { TAB_WORDS, Top } from './top.js';
import { TourView } from './tour-view.js';
import { keyOf, useCurrent } from './use-current.js';
import { useWork } from './use-work.js';
import type { Job } from './work.js';

/** What `sweep` is asked first. */
const FIRST_MAP: readonly string[] = ['ttl', 'drift'];

/** The case that the documentation of Redis warns of. */
const FIRST_SCENARIO = 'S03';

/** No run, and nothing of what is done with one. */
const NO_RUN: Partial<Address> = { scenario: '', run: '', also: [], with: [], event: -1 };

/** The whole playground. Its state is its address. */
export function App(props: { readonly scenarios: readonly Stored[]; readonly tour: readonly TourStop[] }): JSX.Element {
  const { scenarios, tour } = props;
  const [address, setAddress] = useAddress(addressOf, fragmentOf);
  const go = (change: Partial<Address>): void => setAddress((now) => ({ ...now, ...change }));
  const current = useCurrent(address, scenarios);
  const show = async (schedule: Schedule, about: Partial<Shown>, change: Partial<Address> = {}): Promise<void> => {
    const run = await current.put(schedule, about);
    const also = (about.also ?? []).filter((it) => !SAFETY.includes(it));
    if (run !== null) go({ ...NO_RUN, run, also, ...change });
  };
  const work = useWork(({ schedule, property }) => void show(schedule, { also: [property], isShort: true }));
  const begin = (job: Job): void => {
    current.clear();
    go({ ...NO_RUN, ...(job.kind === 'search' ? { search: job.texts } : { map: job.words }) });
    work.begin(job);
  };
  const texts = Object.keys(address.search).length === 0 ? DEMONSTRATION_TEXTS : address.search;
  const words = address.map.length === 0 ? FIRST_MAP : address.map;
  useEffect(() => {
    // Who comes without a run sees a violation first, or a map; who comes with one, that.
    if (keyOf(address) !== '') return;
    if (address.tab === 'search') begin({ kind: 'search', texts });
    if (address.tab === 'map') begin({ kind: 'map', words });
  }, [address.tab]);
  const pickTab = (tab: Tab): void => {
    if (tab === address.tab) return;
    work.clear();
    current.clear();
    const scenario = tab === 'scenarios' ? FIRST_SCENARIO : '';
    go({ ...NO_RUN, tab, scenario, search: {}, map: [], stop: 0, panel: 'events' });
  };
  const takeStep = (step: TourStep): void => {
    work.clear();
    if (step.map.length > 0) begin({ kind: 'map', words: step.map });
    else go({ ...NO_RUN, scenario: step.scenario, with: step.with, map: [] });
  };
  const { shown } = current;
  return (
    <>
      <Top tab={address.tab} onPick={pickTab} />
      <div class="page">
        <main aria-label="Result">
          <Status progress={work.progress} problem={work.problem || current.problem} onStop={work.stop} />
          {work.map === null ? null : (
            <MapView map={work.map} onCell={(schedule, title) => void show(schedule, { title })} />
          )}
          {shown === null ? null : (
            <ResultView
              shown={shown}
              address={address}
              onGo={go}
              onSchedule={(it, change) => void show(it, { flips: shown.flips, also: shown.also }, change)}
            />
          )}
        </main>
        <Side {...{ address, scenarios, tour, texts, words, go, begin, takeStep }} />
      </div>
    </>
  );
}

/** What is chosen from, beside the result. */
function Side(props: {
  readonly address: Address;
  readonly scenarios: readonly Stored[];
  readonly tour: readonly TourStop[];
  readonly texts: SearchTexts;
  readonly words: readonly string[];
  readonly go: (change: Partial<Address>) => void;
  readonly begin: (job: Job) => void;
  readonly takeStep: (step: TourStep) => void;
}): JSX.Element {
  const { address, scenarios, tour, texts, words, go, begin, takeStep } = props;
  const { tab } = address;
  return (
    <aside aria-label={TAB_WORDS[tab]}>
      {tab === 'search' ? (
        <SearchForm texts={texts} onSearch={(it) => begin({ kind: 'search', texts: it })} />
      ) : tab === 'map' ? (
        <MapForm words={words} onSweep={(it) => begin({ kind: 'map', words: it })} />
      ) : tab === 'tour' ? (
        <TourView tour={tour} address={address} onStop={(at) => go({ stop: at })} onStep={takeStep} />
      ) : (
        <ScenarioList
          scenarios={scenarios}
          chosen={address.scenario}
          onPick={(id) => go({ ...NO_RUN, scenario: id })}
        />
      )}
    </aside>
  );
}
