import type { JSX } from 'preact';
import type { Payload } from '../payload.js';
import type { Opened } from './model.js';

/** Verdict, sentences, and what the page can vouch for. */
export function Header(props: {
  readonly payload: Payload;
  readonly opened: Opened;
  readonly written: Opened;
}): JSX.Element {
  const { payload, opened, written } = props;
  const { heading } = opened.scene;
  const bad = heading.verdict === 'bad';
  return (
    <header>
      <p class="id">
        {payload.id} · {payload.title}
      </p>
      <h1 class={bad ? 'bad' : 'good'} data-verdict={opened.verdict}>
        {bad ? '✗' : '✓'} {heading.title}
        {opened.settings.length > 0 ? <span class="with"> with {opened.settings.join(' and ')}</span> : null}
      </h1>
      {heading.sentences.map((it) => (
        <p key={it} class="sentence">
          {it}
        </p>
      ))}
      {payload.source.kind === 'recording' ? (
        <p class="recording">
          <strong>A recording.</strong> This page shows what was taken down, and cannot run it again:{' '}
          {payload.source.why}
        </p>
      ) : null}
      <p class="config">{heading.config}</p>
      {payload.source.kind === 'schedule' && payload.source.other !== null ? (
        <p class="config">
          compared with {payload.source.other.id} · {payload.source.other.title}:{' '}
          <code>{payload.source.other.replay}</code>
        </p>
      ) : null}
      {payload.counterfactual === null ? null : <p class="futures">{futuresLine(payload.counterfactual)}</p>}
      {payload.likelihood === null ? null : (
        <details class="model">
          <summary>What the chance in the picture is a share of</summary>
          <p>{payload.likelihood.model}</p>
        </details>
      )}
      <details>
        <summary>The story, and how to see it again</summary>
        <p>{payload.story}</p>
        <p>
          <code>{payload.replay}</code>
        </p>
        <p data-hash={opened.hash} data-run={opened.stepAt === null ? 'taken' : 'here'}>
          {vouched(payload, opened, written)}
        </p>
      </details>
    </header>
  );
}

/** Each mitigation on the same futures of the run. */
function futuresLine({ schedules, rows }: NonNullable<Payload['counterfactual']>): string {
  const words = rows.map(({ mitigation, violated, unavailable }) => {
    const price = unavailable === 0 ? '' : `, ${unavailable} unavailable`;
    return `${mitigation === '' ? 'as written' : `with ${mitigation}`} ${violated} violated${price}`;
  });
  return `Of ${schedules}: ${words.join(' · ')}`;
}

function vouched(payload: Payload, opened: Opened, written: Opened): string {
  if (payload.source.kind === 'recording') return '';
  if (opened.stepAt === null) return `Trace hash when the report was written: ${payload.hash}.`;
  if (opened.settings.length > 0) return `Run in this page with the settings above: trace hash ${opened.hash}.`;
  return written.hash === payload.hash
    ? `Run again in this page: trace hash ${written.hash}, the same as when the report was written.`
    : `Run again in this page, with another trace hash than when the report was written: ${written.hash}, not ${payload.hash}.`;
}
