import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { TABS, type Tab } from '../address.js';

/** What the tabs are called. */
export const TAB_WORDS: Readonly<Record<Tab, string>> = {
  search: 'Search',
  scenarios: 'Scenarios',
  map: 'Safety map',
  tour: 'Tour',
};

/** What the page is, where it leads, and its link. */
export function Top({ tab, onPick }: { readonly tab: Tab; readonly onPick: (tab: Tab) => void }): JSX.Element {
  const [said, setSaid] = useState('');
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(location.href);
      setSaid('copied');
    } catch {
      setSaid('copy it from the address bar');
    }
    setTimeout(() => setSaid(''), 3_000);
  };
  return (
    <header class="top">
      <h1>
        Lockstep <span>playground</span>
      </h1>
      <p>Does your Redis lock hold? The simulator runs in this page; nothing is sent anywhere.</p>
      <nav aria-label="Playground">
        {TABS.map((it) => (
          <button
            type="button"
            class="tab"
            key={it}
            aria-current={it === tab ? 'page' : undefined}
            onClick={() => onPick(it)}
          >
            {TAB_WORDS[it]}
          </button>
        ))}
      </nav>
      <button type="button" class="copy" onClick={() => void copy()}>
        Copy link
      </button>
      <span role="status" class="said">
        {said}
      </span>
    </header>
  );
}
